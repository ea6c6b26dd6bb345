//! Ranks that are threads of one process.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use forebay_mpiio::error::Error;
use forebay_mpiio::group::{Group, Message};

/// State that the ranks share.
struct Shared {
    barrier: Barrier,
    gathered: Mutex<Vec<Vec<u8>>>,
}

/// One rank: its number, and a way to and from every other.
pub struct Rank {
    number: usize,
    shared: Arc<Shared>,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl Rank {
    pub fn number(&self) -> usize {
        self.number
    }
}

impl Group for Rank {
    type Exchange = Vec<Message>;

    fn rank(&self) -> usize {
        self.number
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn all_gather(&self, own: &[u8]) -> Result<Vec<u8>, Error> {
        self.shared.gathered.lock().unwrap()[self.number] = own.to_vec();
        self.shared.barrier.wait();
        let all = self.shared.gathered.lock().unwrap().concat();
        self.shared.barrier.wait();
        assert_eq!(all.len(), own.len() * self.size(), "all give as many");
        Ok(all)
    }

    fn all_max(&self, values: &mut [i64]) -> Result<(), Error> {
        let own: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let all = self.all_gather(&own)?;
        let numbers: Vec<i64> = all.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        for (index, value) in values.iter_mut().enumerate() {
            *value = numbers.iter().skip(index).step_by(own.len() / 8).copied().max().unwrap();
        }
        Ok(())
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.shared.gathered.lock().unwrap()[self.number] = bytes;
        self.shared.barrier.wait();
        let first = self.shared.gathered.lock().unwrap()[0].clone();
        self.shared.barrier.wait();
        Ok(first)
    }

    fn begin(&self, sends: Vec<Message>, receives: Vec<Message>) -> Result<Vec<Message>, Error> {
        sends.into_iter().for_each(|message| self.to[message.peer].send(message.bytes).unwrap());
        Ok(receives)
    }

    fn finish(&self, mut receives: Vec<Message>) -> Result<Vec<Message>, Error> {
        for message in &mut receives {
            let bytes = self.from[message.peer].recv().unwrap();
            assert_eq!(bytes.len(), message.bytes.len(), "lengths are known");
            message.bytes = bytes;
        }
        Ok(receives)
    }
}

/// Runs a function on every rank, and returns what they return.
pub fn on_ranks<T: Send>(count: usize, work: impl Fn(Rank) -> T + Sync) -> Vec<T> {
    let shared = Arc::new(Shared { barrier: Barrier::new(count), gathered: Mutex::new(vec![vec![]; count]) });
    let mut ways: Vec<(Vec<_>, Vec<_>)> = (0..count).map(|_| (vec![], vec![])).collect();
    for from in 0..count {
        for to in 0..count {
            let (sender, receiver) = channel();
            ways[from].0.push(sender);
            ways[to].1.push(receiver);
        }
    }
    let rank = |(number, (to, from))| Rank { number, shared: shared.clone(), to, from };
    let ranks: Vec<Rank> = ways.into_iter().enumerate().map(rank).collect();
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
