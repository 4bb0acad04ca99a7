//! The sample documents that come with the program: notes of an invented warehouse, and Toolweave's own pages.

use std::io;
use std::path::Path;

/// Path and text of each document.
const DOCUMENTS: &[(&str, &str)] = &[
    (
        "architecture/latency-budgets.md",
        include_str!("../../../demo/docs/architecture/latency-budgets.md"),
    ),
    (
        "architecture/overview.md",
        include_str!("../../../demo/docs/architecture/overview.md"),
    ),
    (
        "decisions/0007-sandbox-for-label-templates.md",
        include_str!("../../../demo/docs/decisions/0007-sandbox-for-label-templates.md"),
    ),
    (
        "decisions/0009-one-queue-per-dock.md",
        include_str!("../../../demo/docs/decisions/0009-one-queue-per-dock.md"),
    ),
    (
        "guides/reading-the-dispatch-screen.md",
        include_str!("../../../demo/docs/guides/reading-the-dispatch-screen.md"),
    ),
    (
        "guides/writing-label-templates.md",
        include_str!("../../../demo/docs/guides/writing-label-templates.md"),
    ),
    (
        "incidents/2026-02-11-template-loop.md",
        include_str!("../../../demo/docs/incidents/2026-02-11-template-loop.md"),
    ),
    (
        "incidents/2026-05-02-clock.md",
        include_str!("../../../demo/docs/incidents/2026-05-02-clock.md"),
    ),
    (
        "notes/2026-03-onboarding.md",
        include_str!("../../../demo/docs/notes/2026-03-onboarding.md"),
    ),
    (
        "notes/2026-04-scanner-latency.md",
        include_str!("../../../demo/docs/notes/2026-04-scanner-latency.md"),
    ),
    (
        "runbooks/carrier-cutoff.md",
        include_str!("../../../demo/docs/runbooks/carrier-cutoff.md"),
    ),
    (
        "runbooks/label-printer.md",
        include_str!("../../../demo/docs/runbooks/label-printer.md"),
    ),
    ("toolweave/README.md", include_str!("../../../../../README.md")),
    (
        "toolweave/ARCHITECTURE.md",
        include_str!("../../../../../ARCHITECTURE.md"),
    ),
    (
        "toolweave/SECURITY.md",
        include_str!("../../../../../SECURITY.md"),
    ),
    (
        "toolweave/limitations.md",
        include_str!("../../../../../docs/limitations.md"),
    ),
    (
        "toolweave/benchmarks.md",
        include_str!("../../../../../docs/benchmarks.md"),
    ),
];

/// Writes all documents below a folder.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn write_to(folder: &Path) -> io::Result<()> {
    for (path, text) in DOCUMENTS {
        let target = folder.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(target, text)?;
    }
    Ok(())
}
