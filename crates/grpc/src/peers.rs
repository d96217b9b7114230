//! How many connections there are, and whose they are.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::warn;

use crate::line::Line;

/// How often refusals are logged at most.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How long a refused peer may take to read that it is.
const PARTING_TIME: Duration = Duration::from_millis(200);

/// How many refused peers are told so at once; others are only disconnected.
const PARTINGS: usize = 32;

/// Empty SETTINGS, and a GOAWAY that says ENHANCE_YOUR_CALM and why.
const REFUSAL: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
    \0\0\x33\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0btoo many connections; see --max-connections";

/// The connections of a server. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    most: usize,
    counts: Mutex<Counts>,
    partings: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
    /// The connections that count, by their numbers.
    seats: HashMap<u64, (IpAddr, Arc<Line>)>,
    last: u64,
    refused: u64,
    logged: Option<Instant>,
}

/// One connection. Dropped, it no longer counts.
#[derive(Debug)]
pub(crate) struct Seat {
    peers: Peers,
    number: u64,
}

// === impl Peers ===

impl Peers {
    pub(crate) fn new(most: usize) -> Self {
        let (counts, partings) = (Mutex::default(), Arc::new(Semaphore::new(PARTINGS)));
        Self { shared: Arc::new(Shared { most: most.max(1), counts, partings }) }
    }

    /// Registers a connection. One peer gets at most half of the limit; an eighth beyond the limit is reserved for peers
    /// without a connection. At the limit, the longest idle connection is closed to make room, one of the same peer if
    /// that peer has its half. Returns `None` if all connections have open calls.
    pub(crate) fn enter(&self, address: IpAddr, line: &Arc<Line>) -> Option<Seat> {
        let (peer, most) = (network(address), self.shared.most);
        let mut counts = self.lock();
        let own = counts.by_peer.get(&peer).copied().unwrap_or(0);
        let has_half = own >= most.div_ceil(2);
        let free = match own {
            0 => counts.all < most + most.div_ceil(8),
            _ => counts.all < most && !has_half,
        };
        if !free {
            let idle = counts.longest_idle(has_half.then_some(peer))?;
            if let Some((_, line)) = counts.remove(idle) {
                line.ask_to_leave();
            }
        }
        counts.all += 1;
        *counts.by_peer.entry(peer).or_default() += 1;
        counts.last += 1;
        let number = counts.last;
        counts.seats.insert(number, (peer, Arc::clone(line)));
        Some(Seat { peers: self.clone(), number })
    }

    /// Disconnects a peer, and says why where that takes no time.
    pub(crate) fn refuse(&self, mut stream: TcpStream, secured: bool) {
        self.log();
        let Ok(parting) = Arc::clone(&self.shared.partings).try_acquire_owned() else { return };
        // Over TLS nothing can be said before the handshake.
        if secured || stream.try_write(REFUSAL).is_err() {
            return;
        }
        tokio::spawn(async move {
            let _parting = parting;
            // Unread data would make the kernel send RST, and the peer would lose what was said.
            let _ = rustix::net::shutdown(&stream, rustix::net::Shutdown::Write);
            let mut rest = [0; 512];
            let read = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
            let _ = tokio::time::timeout(PARTING_TIME, read).await;
        });
    }

    fn log(&self) {
        let mut counts = self.lock();
        counts.refused += 1;
        let now = Instant::now();
        if counts.logged.is_none_or(|logged| now.duration_since(logged) >= LOG_INTERVAL) {
            counts.logged = Some(now);
            let (open, refused) = (counts.all, counts.refused);
            drop(counts);
            warn!(open, refused, "Refusing connections: there are too many; see --max-connections");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What counts as one peer: an address, of version 6 the network that is usually one machine's.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

// === impl Counts ===

impl Counts {
    /// The connection of a peer, or of any, that never had a call for longest, or has had none for longest.
    fn longest_idle(&self, peer: Option<IpAddr>) -> Option<u64> {
        let of_peer = |seat: &&(IpAddr, Arc<Line>)| peer.is_none_or(|peer| peer == seat.0);
        let idle = self.seats.iter().filter(|(_, seat)| of_peer(seat));
        let idle = idle.filter_map(|(number, (_, line))| Some((line.idle()?, *number)));
        idle.min().map(|(_, number)| number)
    }

    /// The connection no longer counts.
    fn remove(&mut self, number: u64) -> Option<(IpAddr, Arc<Line>)> {
        let seat = self.seats.remove(&number)?;
        self.all -= 1;
        if let Some(count) = self.by_peer.get_mut(&seat.0) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&seat.0);
            }
        }
        Some(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.peers.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::OpenCall;

    /// Connections in each of which a call is open.
    fn fill(peers: &Peers, address: &str) -> Vec<(Seat, OpenCall)> {
        let address = address.parse().unwrap();
        let enter = || {
            let line = Line::new(1);
            let call = line.open();
            peers.enter(address, &line).map(|seat| (seat, call))
        };
        std::iter::from_fn(enter).collect()
    }

    #[test]
    fn one_peer_cannot_take_all_connections_and_the_last_are_for_newcomers() {
        let peers = Peers::new(16);
        let first = fill(&peers, "10.0.0.1");
        assert_eq!(first.len(), 8);
        let second = fill(&peers, "::ffff:10.0.0.2");
        assert_eq!(second.len(), 8);
        let third = fill(&peers, "10.0.0.3");
        assert_eq!(third.len(), 1, "a peer without a connection gets one");
        assert_eq!(fill(&peers, "10.0.0.4").len(), 1);
        drop((first, second));
        assert_eq!(fill(&peers, "2001:db8::1").len() + fill(&peers, "2001:db8::2").len(), 8);
    }

    #[test]
    fn every_seat_comes_back() {
        let peers = Peers::new(4);
        for _ in 0..3 {
            assert_eq!(fill(&peers, "10.0.0.1").len(), 2);
        }
        let counts = peers.lock();
        assert!(counts.all == 0 && counts.by_peer.is_empty() && counts.seats.is_empty(), "{counts:?}");
    }

    #[test]
    fn connections_without_calls_make_room_those_that_never_had_one_first() {
        let peers = Peers::new(8);
        let address = "10.0.0.1".parse().unwrap();
        let lines: Vec<_> = (0..4).map(|_| Line::new(1)).collect();
        drop(lines[0].open());
        let busy = lines[1].open();
        let mut seats: Vec<_> = lines.iter().map(|line| peers.enter(address, line).unwrap()).collect();
        let left = || lines.iter().map(|line| line.is_to_leave()).collect::<Vec<_>>();
        let newcomers: Vec<_> = (0..3).map(|_| Line::new(1)).collect();
        let calls: Vec<_> = newcomers.iter().map(Line::open).collect();
        seats.push(peers.enter(address, &newcomers[0]).unwrap());
        assert_eq!(left(), [false, false, true, false], "the one that was made first and never used");
        seats.push(peers.enter(address, &newcomers[1]).unwrap());
        assert_eq!(left(), [false, false, true, true]);
        seats.push(peers.enter(address, &newcomers[2]).unwrap());
        assert_eq!(left(), [true, false, true, true], "one that was used, as no other is idle");
        assert!(peers.enter(address, &Line::new(1)).is_none(), "all are in use");
        drop((seats, calls, busy));
        assert_eq!(peers.lock().all, 0, "those that left are not counted off twice");
    }

    #[test]
    fn the_refusal_is_two_frames() {
        let (settings, goaway) = REFUSAL.split_at(9);
        assert_eq!(settings, [0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let length = u32::from_be_bytes([0, goaway[0], goaway[1], goaway[2]]) as usize;
        assert_eq!((length, goaway[3]), (goaway.len() - 9, 7));
    }
}
