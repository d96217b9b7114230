//! What a package server does around a render.
//!
//! [`task`] completes, patches and heals a package, renders it, and says what to do with the files; [`service`] puts
//! that behind gRPC.

pub mod service;
pub mod task;
