//! What a person sees: progress and calls on standard error, the answer on standard output.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use toolweave_tools::{CallRecord, Effect, RunEvent, RunObserver};

/// Whether and how text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Always,
    Never,
}

impl Colour {
    /// Colours only terminals, and none when `NO_COLOR` is set to anything.
    pub(crate) fn choose(no_color: bool, terminal: bool) -> Self {
        if terminal && !no_color {
            Self::Always
        } else {
            Self::Never
        }
    }

    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        match self {
            Self::Never => text.to_owned(),
            Self::Always => format!("\u{1b}[{}m{text}\u{1b}[0m", style as u8),
        }
    }
}

/// The few styles in use, by their SGR number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

/// Where output goes.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    pub(crate) out_is_terminal: bool,
    pub(crate) err_is_terminal: bool,
    pub(crate) out: Colour,
    pub(crate) err: Colour,
}

impl Terminal {
    pub(crate) fn detect(no_color: bool) -> Self {
        let out_is_terminal = std::io::stdout().is_terminal();
        let err_is_terminal = std::io::stderr().is_terminal();
        Self {
            out_is_terminal,
            err_is_terminal,
            out: Colour::choose(no_color, out_is_terminal),
            err: Colour::choose(no_color, err_is_terminal),
        }
    }

    /// Writes a line of the answer. A reader that went away is no error.
    #[expect(
        clippy::unused_self,
        reason = "output goes through the one place that knows where it goes"
    )]
    pub(crate) fn answer(&self, line: &str) {
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }

    /// Writes text from a program or a tool. On a terminal, control characters are shown instead of obeyed.
    pub(crate) fn foreign(&self, text: &str) {
        if self.out_is_terminal {
            self.answer(&visible(text))
        } else {
            self.answer(text)
        }
    }

    /// Writes a line for the person at the terminal, beside the answer.
    #[expect(
        clippy::unused_self,
        reason = "output goes through the one place that knows where it goes"
    )]
    pub(crate) fn note(&self, line: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{}", visible(line));
    }

    pub(crate) fn warning(&self, text: &str) {
        let mark = self.err.paint(Style::Yellow, "warning:");
        let _ = writeln!(std::io::stderr().lock(), "{mark} {}", visible(text));
    }

    pub(crate) fn error(&self, text: &str) {
        let mark = self.err.paint(Style::Red, "error:");
        let _ = writeln!(std::io::stderr().lock(), "{mark} {}", visible(text));
    }

    /// Shows that something is going on, on a terminal only.
    pub(crate) fn spinner(&self, message: &str) -> ProgressBar {
        if !self.err_is_terminal {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = if self.err == Colour::Always {
            "{spinner:.cyan} {msg}"
        } else {
            "{spinner} {msg}"
        };
        bar.set_style(
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        bar.set_message(message.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }
}

/// Returns text with control characters shown as escapes, so that nothing foreign drives the terminal.
pub(crate) fn visible(text: &str) -> String {
    if !text.chars().any(is_hazard) {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hazard(c) {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Control characters, and the marks that reorder text.
fn is_hazard(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Shows sub-calls while a program runs.
pub(crate) struct LiveCalls {
    lines: Lines,
    colour: Colour,
    running: Mutex<Vec<Running>>,
}

/// A call that has started and not settled.
struct Running {
    id: Arc<str>,
    name: String,
    arguments: Arc<str>,
}

enum Lines {
    /// Above a spinner that shows what is running.
    Spinner(ProgressBar),
    /// Plain lines on standard output, part of the answer.
    Answer,
}

impl LiveCalls {
    /// Shows calls on standard error, above a spinner.
    pub(crate) fn on_terminal(terminal: &Terminal) -> Self {
        Self {
            lines: Lines::Spinner(terminal.spinner("running")),
            colour: terminal.err,
            running: Mutex::default(),
        }
    }

    /// Writes calls as part of the answer.
    pub(crate) fn as_answer(terminal: &Terminal) -> Self {
        Self {
            lines: Lines::Answer,
            colour: terminal.out,
            running: Mutex::default(),
        }
    }

    pub(crate) fn finish(&self) {
        if let Lines::Spinner(bar) = &self.lines {
            bar.finish_and_clear();
        }
    }

    fn line(&self, line: &str) {
        match &self.lines {
            Lines::Spinner(bar) => bar.println(line),
            Lines::Answer => {
                let _ = writeln!(std::io::stdout().lock(), "{line}");
            }
        }
    }

    fn settled(&self, record: &CallRecord, bytes: usize) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let arguments = running
            .iter()
            .position(|call| call.id == record.id)
            .map(|at| running.swap_remove(at).arguments);
        let shown = arguments
            .as_deref()
            .map(|arguments| shortened(arguments, 60))
            .unwrap_or_default();
        let mark = if record.ok {
            self.colour.paint(Style::Green, "✓")
        } else {
            self.colour.paint(Style::Red, "✗")
        };
        let effect = if record.effect == Effect::Read {
            ""
        } else {
            " [write]"
        };
        let outcome = match &record.error {
            Some(error) => shortened(error, 80),
            None => human_bytes(bytes),
        };
        let facts = format!("{} · {}{effect}", human_duration(record.duration), outcome);
        self.line(&format!(
            "  {mark} {}({}) {}",
            visible(&record.name),
            visible(&shown),
            self.colour.paint(Style::Dim, &visible(&facts))
        ));
        if let Lines::Spinner(bar) = &self.lines {
            let names: Vec<_> = running.iter().map(|call| call.name.as_str()).take(4).collect();
            bar.set_message(if names.is_empty() {
                "running".to_owned()
            } else {
                visible(&names.join(", "))
            });
        }
    }
}

impl RunObserver for LiveCalls {
    fn on_event(&self, event: RunEvent) {
        match event {
            RunEvent::CallStarted {
                id, name, arguments, ..
            } => {
                self.running
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(Running { id, name, arguments });
            }
            RunEvent::CallSettled { record, result_bytes } => self.settled(&record, result_bytes),
            RunEvent::Log { .. } => {}
        }
    }
}

/// Returns the first line of a text, cut to so many characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(most).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

pub(crate) fn human_bytes(bytes: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let size = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", size / 1024.0),
        _ => format!("{:.1} MiB", size / 1_048_576.0),
    }
}

pub(crate) fn human_duration(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1000.0;
    if ms < 1.0 {
        format!("{:.0} µs", ms * 1000.0)
    } else if ms < 1000.0 {
        format!("{ms:.1} ms")
    } else {
        format!("{:.2} s", ms / 1000.0)
    }
}

/// Returns a whole number with its thousands set apart.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_drive_the_terminal() {
        assert_eq!(visible("plain\n\tüñ 🦀"), "plain\n\tüñ 🦀");
        assert_eq!(visible("\u{1b}[2Jx\u{202e}"), "\\u{1b}[2Jx\\u{202e}");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1000), grouped(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_duration(Duration::from_micros(250)), "250 µs");
        assert_eq!(shortened("one two\nthree", 3), "one…");
    }
}
