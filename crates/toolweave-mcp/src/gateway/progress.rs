//! What a client hears while a call runs: one progress notification per event, fewer when there are very many.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolweave_tools::{ProgressSink, RunEvent, RunObserver};

use crate::json::excerpt;

/// Notifications of one call that are sent one by one; later ones stand for all that happened since the last.
const ONE_BY_ONE: u32 = 200;
/// Shortest time between two of the later ones.
const INTERVAL: Duration = Duration::from_millis(100);
/// Events that wait to be told. What does not fit is counted, not told.
const QUEUE: usize = 512;
/// How long the last ones may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
const MAX_MESSAGE_CHARS: usize = 300;

/// Tells a client how one call gets on.
pub(crate) struct Feed {
    sender: mpsc::Sender<Update>,
    finished: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

enum Update {
    /// Something happened in a program.
    Event(String),
    /// A tool says so itself.
    Own {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    },
}

struct Observer {
    sender: mpsc::Sender<Update>,
}

impl RunObserver for Observer {
    fn on_event(&self, event: RunEvent) {
        let message = match event {
            RunEvent::CallStarted { name, .. } => format!("{name} started"),
            RunEvent::CallSettled { record, .. } => {
                let how = if record.ok { "done" } else { "failed" };
                format!("{} {how} after {} ms", record.name, record.duration.as_millis())
            }
            RunEvent::Log { entry } => entry,
        };
        let _ = self
            .sender
            .try_send(Update::Event(excerpt(&message, MAX_MESSAGE_CHARS)));
    }
}

impl Feed {
    pub(crate) fn start(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let finished = CancellationToken::new();
        let task = tokio::spawn(tell(peer, token, receiver, finished.clone()));
        Self {
            sender,
            finished,
            task,
        }
    }

    pub(crate) fn observer(&self) -> Arc<dyn RunObserver> {
        Arc::new(Observer {
            sender: self.sender.clone(),
        })
    }

    pub(crate) fn sink(&self) -> ProgressSink {
        let sender = self.sender.clone();
        Arc::new(move |progress, total, message| {
            let message = message.map(|message| excerpt(message, MAX_MESSAGE_CHARS));
            let _ = sender.try_send(Update::Own {
                progress,
                total,
                message,
            });
        })
    }

    /// Sends what is left: nothing may follow the answer.
    pub(crate) async fn finish(self) {
        self.finished.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(LAST_WORDS, self.task).await.is_err() {
            abort.abort();
        }
    }
}

async fn tell(
    peer: Peer<RoleServer>,
    token: ProgressToken,
    mut receiver: mpsc::Receiver<Update>,
    finished: CancellationToken,
) {
    let mut sent: u32 = 0;
    let mut events: u32 = 0;
    let mut last = f64::NEG_INFINITY;
    loop {
        let update = tokio::select! {
            biased;
            update = receiver.recv() => update,
            () = finished.cancelled() => receiver.try_recv().ok(),
        };
        let Some(mut update) = update else { return };
        events += 1;
        if sent >= ONE_BY_ONE {
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = finished.cancelled() => {}
            }
            while let Ok(later) = receiver.try_recv() {
                events += 1;
                update = later;
            }
        }
        let (progress, total, message) = match update {
            Update::Event(message) => (f64::from(events), None, Some(message)),
            Update::Own {
                progress,
                total,
                message,
            } => (progress, total, message),
        };
        // Progress has to grow with every notification.
        if progress <= last || !progress.is_finite() {
            continue;
        }
        last = progress;
        sent += 1;
        let mut params = ProgressNotificationParam::new(token.clone(), progress);
        params.total = total.filter(|total| total.is_finite());
        params.message = message;
        if peer.notify_progress(params).await.is_err() {
            return;
        }
    }
}
