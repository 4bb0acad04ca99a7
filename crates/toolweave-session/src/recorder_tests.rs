//! Disks that fill up, and recorders that run out of room.

use super::*;
use crate::TurnStart;

/// A disk that takes half of a write and then fails, as long as it is full.
#[derive(Clone, Default)]
struct FakeDisk(Arc<Mutex<FakeState>>);

#[derive(Default)]
struct FakeState {
    content: Vec<u8>,
    full: bool,
    cannot_cut: bool,
}

impl FakeDisk {
    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.0.lock().unwrap()
    }

    fn record(&self) -> Recorder {
        let header = SessionHeader {
            format_version: FORMAT_VERSION,
            product_version: "0".to_owned(),
            session_id: SessionId::generate(),
            cwd: None,
            origin: None,
        };
        let target = Target {
            disk: Box::new(self.clone()),
            good_len: 0,
            dirty: false,
        };
        let recorder = Recorder::start(header.clone(), PathBuf::from("fake"), target, 0, i64::MIN).unwrap();
        recorder.append(header);
        recorder
    }

    fn turns(&self) -> Vec<Event> {
        let content = self.state().content.clone();
        Reader::new(content.as_slice())
            .unwrap()
            .skip(1)
            .map(|record| record.unwrap().event)
            .collect()
    }
}

impl Disk for FakeDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let taken = if state.full { bytes.len() / 2 } else { bytes.len() };
        state.content.extend(&bytes[..taken]);
        if state.full {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        if state.cannot_cut {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        state.content.truncate(usize::try_from(len).unwrap());
        Ok(())
    }
}

fn turns(range: std::ops::Range<u64>) -> Vec<Event> {
    range.map(|turn| TurnStart { turn }.into()).collect()
}

#[test]
fn a_full_disk_is_reported_once_and_loses_nothing_when_it_has_room_again() {
    let disk = FakeDisk::default();
    let recorder = disk.record();
    recorder.append(TurnStart { turn: 0 });
    recorder.flush().unwrap();

    disk.state().full = true;
    recorder.append(TurnStart { turn: 1 });
    recorder.append(TurnStart { turn: 2 });
    let message = recorder.flush().unwrap_err().to_string();
    assert_eq!(
        message,
        "cannot write the session log: no storage space; 2 events wait in memory"
    );
    assert_eq!(recorder.status().error.as_deref(), Some("no storage space"));
    assert_eq!((recorder.status().durable_seq, recorder.status().pending), (2, 2));
    assert!(recorder.flush().is_err());
    assert!(recorder.take_trouble().is_some());
    assert!(recorder.take_trouble().is_none());

    disk.state().full = false;
    recorder.append(TurnStart { turn: 3 });
    assert_eq!(recorder.flush().unwrap(), 5);
    assert_eq!(recorder.status().error, None);
    assert_eq!(disk.turns(), turns(0..4));
}

#[test]
fn nothing_is_written_behind_a_torn_line() {
    let disk = FakeDisk::default();
    let recorder = disk.record();
    recorder.flush().unwrap();
    disk.state().full = true;
    disk.state().cannot_cut = true;
    recorder.append(TurnStart { turn: 0 });
    assert!(recorder.flush().is_err());
    disk.state().full = false;
    assert!(recorder.flush().is_err());
    assert_eq!(disk.turns(), []);
    disk.state().cannot_cut = false;
    // An attempt that had begun before may still report its failure.
    let flushed = (0..100).any(|_| recorder.flush().is_ok());
    assert!(flushed, "{:?}", recorder.status());
    assert_eq!(disk.turns(), turns(0..1));
}

#[test]
fn a_recorder_ends_although_its_disk_is_full() {
    let disk = FakeDisk::default();
    let recorder = disk.record();
    recorder.flush().unwrap();
    disk.state().full = true;
    recorder.append(TurnStart { turn: 0 });
    drop(recorder);
    assert_eq!(disk.turns(), []);
}

#[test]
fn dropped_events_leave_a_note_in_their_place() {
    let mut state = State::new(0, i64::MIN);
    state.pending_bytes = MAX_PENDING_BYTES;
    let body = |turn| encode(&TurnStart { turn }.into()).0;
    assert_eq!((state.push(body(1)), state.push(body(2))), (0, 0));
    assert_eq!(state.dropped, 2);
    assert!(state.trouble.is_some());
    state.pending_bytes = 0;
    assert_eq!(state.push(body(3)), 2);
    let bodies: Vec<String> = state.queue.iter().map(|event| event.body.clone()).collect();
    assert_eq!(
        bodies,
        ["\"type\":\"log/gap\",\"dropped\":2}".to_owned(), body(3)]
    );
    assert_eq!(state.dropped, 2);
}
