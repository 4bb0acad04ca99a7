//! A folder with something outside it, and calls without ceremony.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use toolweave_builtins::{Access, Root, tools};
use toolweave_tools::{CallContext, Content, Tool, ToolError, ToolOutput};

/// A root folder `root`, beside a folder `outside` that nothing may touch.
pub(crate) struct Fixture {
    _dir: TempDir,
    pub(crate) base: PathBuf,
}

impl Fixture {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir(base.join("root")).unwrap();
        fs::create_dir(base.join("outside")).unwrap();
        fs::write(base.join("outside/secret.txt"), "secret\n").unwrap();
        let fixture = Self { _dir: dir, base };
        for (path, content) in files {
            fixture.put(path, content);
        }
        fixture
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.base.join("root").join(path)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn tools(&self) -> Tools {
        Tools::new(Root::open(self.base.join("root")).unwrap())
    }

    /// Both ways of resolving paths.
    pub(crate) fn both(&self) -> [Tools; 2] {
        [
            self.tools(),
            Tools::new(Root::open_portable(self.base.join("root")).unwrap()),
        ]
    }

    /// Everything outside of the root: path and content.
    pub(crate) fn outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn collect(folder: &Path, skip: &Path, out: &mut Vec<(PathBuf, Vec<u8>)>) {
            let mut paths: Vec<_> = fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            paths.sort();
            for path in paths {
                if path == skip {
                    continue;
                }
                if path.is_dir() {
                    out.push((path.clone(), Vec::new()));
                    collect(&path, skip, out);
                } else {
                    out.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        let mut out = Vec::new();
        collect(&self.base, &self.base.join("root"), &mut out);
        out
    }
}

/// The tools of one root.
#[derive(Clone)]
pub(crate) struct Tools(Arc<Vec<Arc<dyn Tool>>>);

impl Tools {
    pub(crate) fn new(root: Root) -> Self {
        Self(Arc::new(tools(root, Access::ReadWrite)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.0.iter()
    }

    pub(crate) fn get(&self, name: &str) -> Arc<dyn Tool> {
        self.iter().find(|tool| tool.spec().name == name).unwrap().clone()
    }

    pub(crate) async fn call_with(
        &self,
        cancel: &CancellationToken,
        name: &str,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let context = CallContext {
            cancel: cancel.clone(),
            call_id: "call".into(),
            root_call_id: "call".into(),
            progress: None,
        };
        self.get(name).call(&context, arguments).await
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        self.call_with(&CancellationToken::new(), name, arguments).await
    }

    pub(crate) async fn value(&self, name: &str, arguments: Value) -> Value {
        self.call(name, arguments).await.unwrap().value
    }

    /// What a model is shown.
    pub(crate) async fn shown(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await.unwrap();
        match <[Content; 1]>::try_from(output.content).unwrap() {
            [Content::Text(text)] => text,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn error(&self, name: &str, arguments: Value) -> String {
        match self.call(name, arguments).await {
            Ok(output) => panic!("{name} succeeded: {:?}", output.value),
            Err(error) => format!("{}: {error}", error.code),
        }
    }
}

/// Whether the tests run as a user whom permissions do not bind.
pub(crate) fn is_root_user() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    fs::write(&path, "").unwrap();
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0);
    fs::set_permissions(&path, permissions).unwrap();
    fs::read(&path).is_ok()
}
