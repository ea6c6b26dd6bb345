//! Nodes that have several ports, of which others have taken some: a node is found at its own, and whoever has another
//! neither takes its place nor stands in between.

use std::io::Write;
use std::net::TcpListener;

use forebay_transport::{Address, CallError, Endpoint, Refusal, Security};
use forebay_types::NodeRank;
use forebay_wire::{FrameKind, JobMessage, Level, Outcome};
use net::middle::{pass_on, recorder};
use net::raw::address_of;
use net::{PATIENCE, key, loopback, mute, options_with, service};
use tokio::net::TcpSocket;

use crate::net;

fn both() -> [Security; 2] {
    [Security::Off, Security::Auth(key())]
}

/// Node 0, which answers everything.
fn root(security: &Security) -> (Endpoint, Address) {
    let (listener, address) = loopback();
    let options = options_with(0, vec![address.clone(); 2], security.clone());
    let answer = service(|call| call.reply.answer(Outcome::Text, None));
    (Endpoint::start(options, listener, answer).unwrap(), address)
}

/// A node 1 that looks for node 0 at these, in this order.
fn leaf(security: &Security, at: &[&Address]) -> Endpoint {
    let (listener, own) = loopback();
    let ports = at.iter().flat_map(|address| match address {
        Address::Tcp { ports, .. } => ports.clone(),
        Address::Memory => panic!("no port"),
    });
    let node = Address::Tcp { host: "127.0.0.1".to_owned(), ports: ports.collect() };
    Endpoint::start(options_with(1, vec![node, own], security.clone()), listener, mute()).unwrap()
}

async fn ask(node: &Endpoint) -> Result<Outcome, CallError> {
    node.call(NodeRank(0), JobMessage::Status, PATIENCE).await.map(|reply| reply.outcome)
}

/// A port on which nobody listens, one where somebody accepts and is silent, one where somebody says what no daemon
/// says, and one of another node of the job.
fn taken(security: &Security) -> (Vec<Address>, (TcpSocket, TcpListener), Endpoint) {
    // Bound, so that nobody else gets it, and never listening.
    let unheard = TcpSocket::new_v4().unwrap();
    unheard.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = Address::Tcp { host: "127.0.0.1".to_owned(), ports: vec![unheard.local_addr().unwrap().port()] };
    let ((silent, silent_at), (speaks, speaks_at)) = (loopback(), loopback());
    std::thread::spawn(move || {
        for connection in speaks.incoming() {
            // The peer may be gone.
            connection.and_then(|mut connection| connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")).ok();
        }
    });
    let (listener, other_at) = loopback();
    let options = options_with(1, vec![other_at.clone(); 2], security.clone());
    let other = Endpoint::start(options, listener, mute()).unwrap();
    (vec![closed, silent_at, speaks_at, other_at], (unheard, silent), other)
}

#[tokio::test]
async fn a_node_is_found_whoever_has_its_other_ports() {
    for security in both() {
        let (root, own) = root(&security);
        let (taken, _silent, _other) = taken(&security);
        for first in &taken {
            assert_eq!(ask(&leaf(&security, &[first, &own])).await.unwrap(), Outcome::Text, "{first}");
        }
        let all: Vec<&Address> = taken.iter().chain([&own]).collect();
        let leaf = leaf(&security, &all);
        assert_eq!(ask(&leaf).await.unwrap(), Outcome::Text);
        assert_eq!(
            (root.counters().refused, leaf.counters().connections),
            (0, 2),
            "what was tried beside it is closed"
        );
    }
}

#[tokio::test]
async fn of_several_failures_the_one_of_a_port_where_somebody_speaks_is_told() {
    for security in both() {
        let (taken, _silent, _other) = taken(&security);
        let [closed, _, speaks, _] = &taken[..] else { panic!() };
        let error = ask(&leaf(&security, &[speaks, closed])).await.unwrap_err();
        let CallError::Refused { source, address, .. } = error else { panic!("{error:?}") };
        assert!(matches!(*source, Refusal::NoDaemon), "{source:?}");
        assert_eq!(address.matches(',').count(), 1, "both are named: {address}");
    }
}

/// Another user of the node's host has its first port and leads whoever comes there to the node's own.
#[tokio::test]
async fn a_relay_between_ports_is_refused() {
    for level in [Level::Auth, Level::Seal] {
        let security = Security::new(level, Some(key())).unwrap();
        let (root, own) = root(&security);
        let (recorded, tamper) = recorder();
        let (listener, middle) = loopback();
        pass_on(listener, address_of(&own), level, tamper);
        let error = ask(&leaf(&security, &[&middle])).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Refused { source, .. } if matches!(**source, Refusal::Closed)),
            "{error:?}"
        );
        net::until("both connections are counted", || root.counters().refused == 2).await;
        assert_eq!(ask(&leaf(&security, &[&middle, &own])).await.unwrap(), Outcome::Text, "past him");
        let request = FrameKind::Request as u8;
        assert!(recorded.lock().unwrap().iter().all(|frame| frame[0] != request), "he sees nothing but handshakes");
    }
}
