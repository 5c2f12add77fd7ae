//! Queues of real crates, bounded or not: `queue_crates CASE BOUND` (0: no bound) sends 5,000 messages (ffi: 1,500).
//! The consumer never keeps up. Without a bound nearly all messages wait; with one the producer does.
use std::time::{Duration, Instant};
const MESSAGES: usize = 5000;

struct Job {
    body: Vec<u8>,
    number: usize,
}

#[inline(never)]
fn make_job(number: usize) -> Job {
    Job {
        body: vec![7u8; 1024],
        number,
    }
}

#[inline(never)]
fn make_json(number: usize) -> serde_json::Value {
    serde_json::json!({"id": number, "name": format!("device-{number}"), "tags": ["a", "bb", "ccc"],
                       "where": {"x": 1.5, "y": 2.5, "site": format!("hall {}", number % 7)}})
}

#[inline(never)]
fn work(micros: u64) {
    let until = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

#[inline(never)]
fn consume(job: Job) -> usize {
    std::thread::sleep(Duration::from_micros(60));
    job.number + job.body.len()
}

fn threads<S, R>(send: S, mut receive: R)
where
    S: Fn(Job) + Send + 'static,
    R: FnMut() -> Option<Job> + Send + 'static,
{
    let consumer = std::thread::Builder::new()
        .name("consumer".into())
        .spawn(move || {
            let mut sum = 0;
            while let Some(job) = receive() {
                sum += consume(job);
            }
            sum
        });
    for i in 0..MESSAGES {
        send(make_job(i));
        work(3);
    }
    drop(send);
    println!("{}", consumer.unwrap().join().unwrap());
}

/* ---- tokio */
enum Sender {
    Bounded(tokio::sync::mpsc::Sender<Job>),
    Unbounded(tokio::sync::mpsc::UnboundedSender<Job>),
}
enum Receiver {
    Bounded(tokio::sync::mpsc::Receiver<Job>),
    Unbounded(tokio::sync::mpsc::UnboundedReceiver<Job>),
}
impl Sender {
    async fn send(&self, job: Job) {
        match self {
            Sender::Bounded(s) => s.send(job).await.ok().unwrap(),
            Sender::Unbounded(s) => s.send(job).ok().unwrap(),
        }
    }
}
impl Receiver {
    async fn recv(&mut self) -> Option<Job> {
        match self {
            Receiver::Bounded(r) => r.recv().await,
            Receiver::Unbounded(r) => r.recv().await,
        }
    }
}
fn channel(bound: usize) -> (Sender, Receiver) {
    if bound > 0 {
        let (s, r) = tokio::sync::mpsc::channel(bound);
        (Sender::Bounded(s), Receiver::Bounded(r))
    } else {
        let (s, r) = tokio::sync::mpsc::unbounded_channel();
        (Sender::Unbounded(s), Receiver::Unbounded(r))
    }
}

/* The consumer computes: it never waits but for the queue; the producer yields. */
async fn busy_actor(mut rx: Receiver) -> usize {
    let mut sum = 0;
    while let Some(job) = rx.recv().await {
        work(40);
        sum += job.number + job.body.len();
        drop(job);
        tokio::task::yield_now().await;
    }
    sum
}
async fn yielding_producer(tx: Sender) {
    for i in 0..MESSAGES {
        tx.send(make_job(i)).await;
        if i % 4 == 3 {
            tokio::task::yield_now().await;
        }
    }
}
/* The actor awaits a timer for each message, the producer too, but for eight at a time. */
async fn awaiting_actor(mut rx: Receiver) -> usize {
    let mut sum = 0;
    while let Some(job) = rx.recv().await {
        if job.number % 8 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sum += job.number + job.body.len();
    }
    sum
}
async fn ticking_producer(tx: Sender) {
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    for i in 0..MESSAGES {
        tx.send(make_job(i)).await;
        if i % 32 == 31 {
            tick.tick().await;
        }
    }
}
/* Sends everything before it awaits. */
async fn eager_producer(tx: Sender) {
    for i in 0..MESSAGES {
        tx.send(make_job(i)).await;
    }
}
fn tokio_current(bound: usize, which: &str) {
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let which = which.to_string();
    rt.block_on(async move {
        let (tx, rx) = channel(bound);
        let consumer = if which == "busy" {
            tokio::spawn(busy_actor(rx))
        } else {
            tokio::spawn(awaiting_actor(rx))
        };
        match which.as_str() {
            "busy" => yielding_producer(tx).await,
            "timer" => ticking_producer(tx).await,
            _ => eager_producer(tx).await,
        }
        println!("{}", consumer.await.unwrap());
    });
}
fn tokio_multi(bound: usize, which: &str) {
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let which = which.to_string();
    rt.block_on(async move {
        let (tx, rx) = channel(bound);
        let consumer = if which == "busy" {
            tokio::spawn(busy_actor(rx))
        } else {
            tokio::spawn(awaiting_actor(rx))
        };
        let producer = match which.as_str() {
            "busy" => tokio::spawn(yielding_producer(tx)),
            "timer" => tokio::spawn(ticking_producer(tx)),
            _ => tokio::spawn(eager_producer(tx)),
        };
        producer.await.unwrap();
        println!("{}", consumer.await.unwrap());
    });
}
/* The seed's shape: SendMessage -> FFI queue -> a thread that blocks on produce -> an actor that encodes. */
fn ffi_stage(bound: usize) {
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (actor_tx, mut actor_rx) =
        tokio::sync::mpsc::channel::<(Job, tokio::sync::oneshot::Sender<usize>)>(8);
    rt.spawn(async move {
        while let Some((job, done)) = actor_rx.recv().await {
            tokio::time::sleep(Duration::from_micros(1)).await;
            done.send(job.number + job.body.len()).unwrap();
        }
    });
    let (tx, rx): (Box<dyn Fn(Job)>, std::sync::mpsc::Receiver<Job>) = if bound > 0 {
        let (tx, rx) = std::sync::mpsc::sync_channel(bound);
        (Box::new(move |j| tx.send(j).unwrap()), rx)
    } else {
        let (tx, rx) = std::sync::mpsc::channel();
        (Box::new(move |j| tx.send(j).unwrap()), rx)
    };
    let handle = rt.handle().clone();
    let background = std::thread::Builder::new().name("ffi".into()).spawn(move || {
        let mut sum = 0;
        while let Ok(job) = rx.recv() {
            let (done, answer) = tokio::sync::oneshot::channel();
            handle.block_on(async {
                actor_tx.send((job, done)).await.ok().unwrap();
                sum += answer.await.unwrap();
            });
        }
        sum
    });
    for i in 0..1500 {
        tx(make_job(i));
        work(5);
    }
    drop(tx);
    println!("{}", background.unwrap().join().unwrap());
}
/* Two stages: the first is slow; the second frees what it gets at once. */
#[inline(never)]
fn encode(job: &mut Job) {
    std::thread::sleep(Duration::from_micros(60));
    job.number += 1;
}
fn two_stages(bound: usize) {
    let (tx, rx) = if bound > 0 {
        crossbeam_channel::bounded::<Job>(bound)
    } else {
        crossbeam_channel::unbounded()
    };
    let (tx2, rx2) = crossbeam_channel::bounded::<Job>(16);
    let encoder = std::thread::Builder::new().name("encoder".into()).spawn(move || {
        for mut job in rx {
            encode(&mut job);
            tx2.send(job).unwrap();
        }
    });
    let writer = std::thread::Builder::new().name("writer".into()).spawn(move || {
        let mut sum = 0;
        for job in rx2 {
            sum += job.number;
            drop(job);
        }
        sum
    });
    for i in 0..MESSAGES {
        tx.send(make_job(i)).unwrap();
        work(3);
    }
    drop(tx);
    encoder.unwrap().join().unwrap();
    println!("{}", writer.unwrap().join().unwrap());
}
fn second_stage(bound: usize) {
    let (tx, rx) = std::sync::mpsc::sync_channel::<Job>(16);
    let (tx2, rx2) = if bound > 0 {
        crossbeam_channel::bounded::<Job>(bound)
    } else {
        crossbeam_channel::unbounded()
    };
    let encoder = std::thread::Builder::new().name("encoder".into()).spawn(move || {
        for mut job in rx {
            job.number += 1;
            tx2.send(job).unwrap();
        }
    });
    let writer = std::thread::Builder::new().name("writer".into()).spawn(move || {
        let mut sum = 0;
        for job in rx2 {
            sum += consume(job);
        }
        sum
    });
    for i in 0..MESSAGES {
        tx.send(make_job(i)).unwrap();
        work(3);
    }
    drop(tx);
    encoder.unwrap().join().unwrap();
    println!("{}", writer.unwrap().join().unwrap());
}
fn json(bound: usize) {
    let (tx, rx) = if bound > 0 {
        crossbeam_channel::bounded(bound)
    } else {
        crossbeam_channel::unbounded()
    };
    let consumer = std::thread::Builder::new()
        .name("consumer".into())
        .spawn(move || {
            let mut sum = 0;
            for value in rx {
                let value: serde_json::Value = value;
                std::thread::sleep(Duration::from_micros(60));
                sum += value["id"].as_u64().unwrap();
            }
            sum
        });
    for i in 0..MESSAGES {
        tx.send(make_json(i)).unwrap();
    }
    drop(tx);
    println!("{}", consumer.unwrap().join().unwrap());
}

fn main() {
    let case = std::env::args().nth(1).unwrap();
    let bound: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    match case.as_str() {
        "std" if bound > 0 => {
            let (tx, rx) = std::sync::mpsc::sync_channel(bound);
            threads(move |j| tx.send(j).unwrap(), move || rx.recv().ok())
        }
        "std" => {
            let (tx, rx) = std::sync::mpsc::channel();
            threads(move |j| tx.send(j).unwrap(), move || rx.recv().ok())
        }
        "crossbeam" => {
            let (tx, rx) = if bound > 0 {
                crossbeam_channel::bounded(bound)
            } else {
                crossbeam_channel::unbounded()
            };
            threads(move |j| tx.send(j).unwrap(), move || rx.recv().ok())
        }
        "flume" => {
            let (tx, rx) = if bound > 0 {
                flume::bounded(bound)
            } else {
                flume::unbounded()
            };
            threads(move |j| tx.send(j).unwrap(), move || rx.recv().ok())
        }
        "async-channel" => {
            let (tx, rx) = if bound > 0 {
                async_channel::bounded(bound)
            } else {
                async_channel::unbounded()
            };
            threads(
                move |j| tx.send_blocking(j).unwrap(),
                move || rx.recv_blocking().ok(),
            )
        }
        "current-busy" => tokio_current(bound, "busy"),
        "current-timer" => tokio_current(bound, "timer"),
        "current-eager" => tokio_current(bound, "eager"),
        "multi-busy" => tokio_multi(bound, "busy"),
        "multi-timer" => tokio_multi(bound, "timer"),
        "multi-eager" => tokio_multi(bound, "eager"),
        "ffi" => ffi_stage(bound),
        "two-stages" => two_stages(bound),
        "second-stage" => second_stage(bound),
        "json" => json(bound),
        _ => panic!("no such case"),
    }
}
