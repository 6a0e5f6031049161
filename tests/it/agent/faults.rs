//! A proxy between agent and engine that understands requests: it loses them, loses their answers, delays, doubles and
//! reorders them, as a seed says.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::crash::random::Random;

/// What is done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It is handed on, and so is its answer.
    None,
    /// It never arrives.
    LoseRequest,
    /// It arrives, and its answer is lost.
    LoseAnswer,
    /// It arrives twice.
    Twice,
    /// It is held, and arrives behind later ones; whoever sent it hears nothing.
    Late,
    /// It arrives after a while, and so does its answer.
    Delay,
    /// Half of it arrives.
    Cut,
}

struct State {
    random: Random,
    /// Of how many requests one is handed on without a fault; 1: all are.
    good_of: u64,
    held: Vec<Vec<u8>>,
    faults: u64,
}

/// A running proxy; it ends with the test.
#[derive(Clone)]
pub(crate) struct FaultProxy {
    /// `http://ADDRESS:PORT` of the proxy.
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl FaultProxy {
    /// A proxy before an engine at `http://ADDRESS:PORT`.
    pub(crate) async fn before(target: &str, seed: u64, good_of: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = State { random: Random::new(seed), good_of, held: Vec::new(), faults: 0 };
        let proxy = Self { url, state: Arc::new(Mutex::new(state)) };
        let (serving, target) = (proxy.clone(), target.trim_start_matches("http://").to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(client, target.clone()));
            }
        });
        proxy
    }

    /// From now on everything is handed on; what is held arrives with the next request.
    pub(crate) fn heal(&self) {
        self.state.lock().expect("a state").good_of = 1;
    }

    /// How many requests had a fault.
    pub(crate) fn faults(&self) -> u64 {
        self.state.lock().expect("a state").faults
    }

    fn choose(&self) -> (Fault, Vec<Vec<u8>>) {
        let mut state = self.state.lock().expect("a state");
        let healed = state.good_of == 1;
        let good_of = state.good_of;
        let fault = if state.random.below(good_of) == 0 {
            Fault::None
        } else {
            state.faults += 1;
            let faults = [Fault::LoseRequest, Fault::LoseAnswer, Fault::Twice, Fault::Late, Fault::Delay, Fault::Cut];
            faults[state.random.index(faults.len())]
        };
        // What is held arrives with a later request, in any order.
        let mut released = Vec::new();
        while !state.held.is_empty() && (healed || state.random.below(3) == 0) {
            let len = state.held.len();
            let place = state.random.index(len);
            released.push(state.held.remove(place));
        }
        (fault, released)
    }

    async fn serve(self, mut client: TcpStream, target: String) -> Option<()> {
        loop {
            let request = read_message(&mut client).await?;
            let (fault, released) = self.choose();
            match fault {
                Fault::LoseRequest => return None,
                Fault::Late => {
                    self.state.lock().expect("a state").held.push(request);
                    return None;
                }
                Fault::Cut => {
                    let mut server = TcpStream::connect(&target).await.ok()?;
                    server.write_all(&request[..request.len() / 2]).await.ok()?;
                    return None;
                }
                Fault::None | Fault::LoseAnswer | Fault::Twice | Fault::Delay => {}
            }
            if fault == Fault::Delay {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            }
            let mut answer = hand_on(&target, &request).await?;
            if fault == Fault::Twice {
                answer = hand_on(&target, &request).await?;
            }
            for late in released {
                hand_on(&target, &late).await?;
            }
            if fault == Fault::LoseAnswer {
                return None;
            }
            client.write_all(&answer).await.ok()?;
        }
    }
}

async fn hand_on(target: &str, request: &[u8]) -> Option<Vec<u8>> {
    let mut server = TcpStream::connect(target).await.ok()?;
    server.write_all(request).await.ok()?;
    read_message(&mut server).await
}

/// A request or an answer with its head and, as long as its head says, its body.
async fn read_message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut piece = vec![0; 65_536];
    loop {
        if let Some(head) = message.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&message[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if message.len() >= head + 4 + length.unwrap_or(0) {
                return Some(message);
            }
        }
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 {
            return None;
        }
        message.extend_from_slice(&piece[..read]);
    }
}
