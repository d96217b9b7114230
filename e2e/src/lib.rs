//! Tests on a real Kubernetes.
