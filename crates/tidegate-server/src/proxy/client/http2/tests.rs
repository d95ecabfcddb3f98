//! The pool against peers that play a part, over pipes and in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use h2::Reason;
use h2::server::{self, SendResponse};
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::connect_error::ConnectError;
use super::*;
use crate::proxy::request_body::OutgoingBody;

/// What a peer allows and saw.
#[derive(Clone, Default)]
struct Peer {
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    most_open: Arc<AtomicUsize>,
}

impl Peer {
    /// Serves one more connection. Each request is answered by `part`, which gets its number.
    async fn connect<F>(
        &self,
        streams: &Arc<Streams>,
        opening: Opening,
        limit: u32,
        part: impl Fn(usize, SendResponse<Bytes>) -> F + Send + 'static,
    ) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = duplex(1 << 20);
        let peer = self.clone();
        let serving = tokio::spawn(async move {
            let mut connection = serve(theirs, limit).await;
            let open = Arc::new(AtomicUsize::new(0));
            while let Some(Ok((request, respond))) = connection.accept().await {
                let number = peer.requests.fetch_add(1, Ordering::Relaxed);
                let now = open.fetch_add(1, Ordering::Relaxed) + 1;
                peer.most_open.fetch_max(now, Ordering::Relaxed);
                let (answer, open) = (part(number, respond), open.clone());
                tokio::spawn(async move {
                    let _body = request.into_body();
                    answer.await;
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        let opened = super::open(ours).await;
        opened.unwrap_or_else(|why| panic!("not opened: {why}")).join(streams, opening);
        serving
    }
}

async fn serve(stream: DuplexStream, limit: u32) -> server::Connection<DuplexStream, Bytes> {
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(limit).handshake(stream).await.expect("a client")
}

/// Answers with a body that has so many bytes.
fn answer(mut respond: SendResponse<Bytes>, bytes: usize) {
    let mut stream = respond.send_response(Response::new(()), bytes == 0).expect("sent");
    if bytes > 0 {
        stream.send_data(vec![b'x'; bytes].into(), true).expect("queued");
    }
}

async fn ask(slot: Slot) -> Result<Response<Reply>, Failed> {
    let request = Request::post("https://a.example/").body(()).expect("a request");
    send(slot, request, OutgoingBody::default()).await
}

fn slot_of(turn: Turn) -> Slot {
    match turn {
        Turn::Slot(slot) => slot,
        other => panic!("no slot but {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_what_the_peer_allows_go_on_further_connections() {
    let (streams, peer) = (Arc::<Streams>::default(), Peer::default());
    let calls = (0..9).map(|_| {
        let (streams, peer) = (streams.clone(), peer.clone());
        tokio::spawn(async move {
            let (turn, opening) = streams.wait();
            let mut next = opening;
            while let Some(opening) = next.take() {
                let slow = |_, respond| async move {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    answer(respond, 3);
                };
                peer.connect(&streams, opening, 2, slow).await;
                next = streams.open_more();
            }
            let reply = ask(slot_of(turn.await.expect("a turn"))).await.expect("a reply");
            reply.into_body().collect().await.expect("a body").to_bytes().len()
        })
    });
    let begun = Instant::now();
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.expect("no panic"), 3);
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "none waited for another: {:?}", begun.elapsed());
    let seen = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    assert_eq!((seen(&peer.connections), seen(&peer.requests), seen(&peer.most_open)), (5, 9, 2));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_becomes_free_goes_to_the_call_that_waits() {
    let (streams, peer) = (Arc::<Streams>::default(), Peer::default());
    let serving = peer.connect(&streams, streams.open(), 1, |_, respond| async { answer(respond, 0) }).await;
    let first = streams.take().expect("a free slot");
    let (gone, opening) = streams.wait();
    let (waits, _) = streams.wait();
    assert!(streams.take().is_none());
    drop((gone, first));
    let slot = slot_of(waits.await.expect("a turn"));
    // The connection that was begun for them fails, and so does only the call that still waits for it.
    let (failed, _) = streams.wait();
    opening.expect("one is needed").failed(&ConnectError::Late);
    assert!(matches!(failed.await.expect("a turn"), Turn::Failed(ConnectError::Late)));
    assert_eq!(ask(slot).await.expect("a reply").status(), 200);
    assert!(streams.take().is_some());
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_silently_gone_is_dropped_and_never_used_again() {
    let streams = Arc::<Streams>::default();
    let (ours, theirs) = duplex(1 << 20);
    let serving = tokio::spawn(serve(theirs, 100));
    super::open(ours).await.unwrap_or_else(|why| panic!("{why}")).join(&streams, streams.open());
    // From here on nothing reads or writes at the other end, which stays open.
    let silent = serving.await.expect("no panic");
    let begun = Instant::now();
    let failed = ask(streams.take().expect("a slot")).await.expect_err("it is never answered");
    assert!(matches!(failed, Failed::Broken(_)), "it may have been processed: {failed:?}");
    assert_eq!(begun.elapsed().as_secs(), 30, "20 s to the ping, 10 s for its answer");
    assert!(streams.take().is_none());
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_pinged_and_closed_after_a_minute_and_a_half() {
    let (streams, peer) = (Arc::<Streams>::default(), Peer::default());
    let serving = peer.connect(&streams, streams.open(), 9, |_, respond| async { answer(respond, 0) }).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    ask(streams.take().expect("still there")).await.expect("a reply");
    tokio::time::sleep(Duration::from_secs(89)).await;
    assert!(streams.take().is_some(), "60 s and 89 s are not 90 s without a call");
    let begun = Instant::now();
    serving.await.expect("the peer sees the end");
    assert_eq!(begun.elapsed().as_secs(), 90);
    assert!(streams.take().is_none());
}

#[tokio::test(start_paused = true)]
async fn readers_that_stop_do_not_stall_the_others() {
    const LARGE: usize = 8 << 20;
    let (streams, peer) = (Arc::<Streams>::default(), Peer::default());
    let serving =
        peer.connect(&streams, streams.open(), 200, |_, respond| async { answer(respond, LARGE) }).await;
    let mut stopped = Vec::new();
    for _ in 0..MOST_STREAMS - 1 {
        stopped.push(ask(streams.take().expect("a slot")).await.expect("a head").into_body());
    }
    let last = ask(streams.take().expect("a slot")).await.expect("a head").into_body();
    assert!(streams.take().is_none(), "as many as one connection has");
    let read = tokio::time::timeout(Duration::from_secs(10), last.collect()).await;
    assert_eq!(read.expect("it flows").expect("whole").to_bytes().len(), LARGE);
    // The others have lost nothing either.
    let read = stopped.pop().expect("one of them").collect().await;
    assert_eq!(read.expect("whole").to_bytes().len(), LARGE);
    drop(stopped);
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn what_the_peer_did_not_process_is_told_apart() {
    let (streams, peer) = (Arc::<Streams>::default(), Peer::default());
    let refusing = |number, mut respond: SendResponse<Bytes>| async move {
        let reasons = [Reason::REFUSED_STREAM, Reason::INTERNAL_ERROR, Reason::CANCEL];
        respond.send_reset(reasons[number]);
    };
    let serving = peer.connect(&streams, streams.open(), 9, refusing).await;
    for processed in [false, true, true] {
        let failed = ask(streams.take().expect("a slot")).await.expect_err("reset");
        assert_eq!(matches!(failed, Failed::Broken(_)), processed, "{failed:?}");
    }
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_request_above_the_last_stream_id_of_a_goaway_was_not_processed() {
    let streams = Arc::<Streams>::default();
    let (ours, theirs) = duplex(1 << 20);
    let serving = tokio::spawn(async move {
        let mut peer = theirs;
        peer.write_all(&settings(9)).await.expect("read");
        tokio::time::sleep(Duration::from_secs(1)).await;
        // GOAWAY without an error, after stream 1.
        peer.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]).await.expect("read");
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    super::open(ours).await.unwrap_or_else(|why| panic!("{why}")).join(&streams, streams.open());
    let (first, second) = (streams.take().expect("a slot"), streams.take().expect("a slot"));
    let (first, second) = tokio::join!(ask(first), ask(second));
    assert!(matches!(first, Err(Failed::Broken(_))), "it was accepted");
    assert!(matches!(second, Err(Failed::Unprocessed(_))), "it was not: {:?}", second.err());
    assert!(streams.take().is_none(), "no further call goes there");
    serving.await.expect("no panic");
}

/// A SETTINGS frame that allows so many streams.
fn settings(streams: u8) -> [u8; 15] {
    [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams]
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_reset_does_not_look_whole() {
    let (streams, peer) = (Arc::<Streams>::default(), Peer::default());
    let breaking = |number, mut respond: SendResponse<Bytes>| async move {
        let reply = Response::builder().header("content-length", "10").body(()).expect("a reply");
        let mut stream = respond.send_response(reply, false).expect("sent");
        stream.send_data(Bytes::from_static(b"sea"), false).expect("queued");
        tokio::time::sleep(Duration::from_secs(1)).await;
        stream.send_reset([Reason::CANCEL, Reason::NO_ERROR][number]);
    };
    let serving = peer.connect(&streams, streams.open(), 9, breaking).await;
    for _ in 0..2 {
        let reply = ask(streams.take().expect("a slot")).await.expect("a head");
        assert!(reply.into_body().collect().await.is_err());
    }
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_used_before_its_peer_allows_a_stream() {
    let streams = Arc::<Streams>::default();
    let (ours, theirs) = duplex(1 << 20);
    let serving = tokio::spawn(async move {
        let mut peer = theirs;
        for streams in [0, 2] {
            tokio::time::sleep(Duration::from_secs(3)).await;
            peer.write_all(&settings(streams)).await.expect("read");
        }
        peer
    });
    let begun = Instant::now();
    super::open(ours).await.unwrap_or_else(|why| panic!("{why}")).join(&streams, streams.open());
    assert_eq!(begun.elapsed().as_secs(), 6);
    let slots = [streams.take(), streams.take(), streams.take()];
    assert_eq!(slots.map(|slot| slot.is_some()), [true, true, false]);
    drop(serving);
}
