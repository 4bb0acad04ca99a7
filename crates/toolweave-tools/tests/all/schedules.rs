//! Random schedules: whatever the order in which bodies finish, and wherever the run stops, the rules hold.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use serde_json::json;
use toolweave_session::{Event, Recorder};
use toolweave_tools::{
    CallView, Effect, Policy, PostVerdict, ProgramRequest, ToolError, ToolOutput, ToolboxConfig,
};

use crate::dispatch::request;
use crate::support::{End, FakeRuntime, Rig, rig, spec, tool};

#[derive(Clone, Debug)]
struct Plan {
    /// Whether each call is safe, and how many turns of the executor its body takes; 0 is done on the first poll.
    calls: Vec<(bool, u8)>,
    /// Turns until the program ends although calls are in flight; `None` waits for all.
    ends_after: Option<u8>,
    cancels: bool,
    limit: usize,
    hooks: bool,
}

fn plans() -> impl Strategy<Value = Plan> {
    (
        prop::collection::vec((any::<bool>(), 0_u8..6), 0..14),
        prop::option::of(0_u8..12),
        any::<bool>(),
        1_usize..5,
        any::<bool>(),
    )
        .prop_map(|(calls, ends_after, cancels, limit, hooks)| Plan {
            calls,
            ends_after,
            cancels,
            limit,
            hooks,
        })
}

#[derive(Default)]
struct Bodies {
    safe: AtomicUsize,
    exclusive: AtomicUsize,
    peak: AtomicUsize,
    broken: AtomicBool,
    post: AtomicUsize,
}

struct Slow(Arc<Bodies>);

#[async_trait]
impl Policy for Slow {
    fn has_post_execute(&self) -> bool {
        true
    }

    async fn post_execute(
        &self,
        _: CallView<'_>,
        _: Result<&ToolOutput, &ToolError>,
    ) -> Result<PostVerdict, String> {
        if self.0.post.fetch_add(1, Ordering::SeqCst) > 0 {
            self.0.broken.store(true, Ordering::SeqCst);
        }
        tokio::task::yield_now().await;
        self.0.post.fetch_sub(1, Ordering::SeqCst);
        Ok(PostVerdict::Keep)
    }
}

async fn turns(count: u8) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

fn body(name: &str, effect: Effect, bodies: &Arc<Bodies>) -> Arc<dyn toolweave_tools::Tool> {
    let bodies = Arc::clone(bodies);
    let safe = effect == Effect::Read;
    tool(spec(name, effect), move |context, arguments| {
        struct Leave(Arc<Bodies>, bool);
        impl Drop for Leave {
            fn drop(&mut self) {
                let count = if self.1 { &self.0.safe } else { &self.0.exclusive };
                count.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let bodies = Arc::clone(&bodies);
        async move {
            let count = if safe { &bodies.safe } else { &bodies.exclusive };
            count.fetch_add(1, Ordering::SeqCst);
            let (safe_now, exclusive_now) = (
                bodies.safe.load(Ordering::SeqCst),
                bodies.exclusive.load(Ordering::SeqCst),
            );
            if exclusive_now > 1 || (exclusive_now == 1 && safe_now > 0) {
                bodies.broken.store(true, Ordering::SeqCst);
            }
            bodies.peak.fetch_max(safe_now, Ordering::SeqCst);
            let _leave = Leave(Arc::clone(&bodies), safe);
            let count = arguments["turns"].as_u64().unwrap() as u8;
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => Err(ToolError::failed("stopped")),
                () = turns(count) => Ok(ToolOutput::from_value(arguments)),
            }
        }
    })
}

async fn hold(plan: Plan) -> Result<(), TestCaseError> {
    let bodies = Arc::new(Bodies::default());
    let recorder = Recorder::memory();
    let request = request();
    let answered = Arc::new(Mutex::new(0_usize));
    let runtime = {
        let (plan, answered, cancel) = (plan.clone(), Arc::clone(&answered), request.cancel.clone());
        FakeRuntime::new(move |guest| {
            let (plan, answered, cancel) = (plan.clone(), Arc::clone(&answered), cancel.clone());
            async move {
                let calls: Vec<_> = plan
                    .calls
                    .iter()
                    .map(|&(safe, turns)| {
                        guest.call(if safe { "safe" } else { "alone" }, json!({"turns": turns}))
                    })
                    .collect();
                let all = async {
                    let answers = futures_util::future::join_all(calls).await;
                    *answered.lock().unwrap() = answers.iter().filter(|answer| answer.is_ok()).count();
                };
                match plan.ends_after {
                    None => all.await,
                    Some(after) => tokio::select! { biased; () = turns(after) => {}, () = all => {} },
                }
                if plan.cancels && plan.ends_after.is_some() {
                    cancel.cancel();
                    std::future::pending::<()>().await;
                }
                End::Nothing
            }
        })
    };
    let config = ToolboxConfig {
        max_parallel_sub_calls: plan.limit,
        ..ToolboxConfig::default()
    };
    let tools = vec![
        body("safe", Effect::Read, &bodies),
        body("alone", Effect::Write, &bodies),
    ];
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(tools, runtime, config);
    let mut toolbox = toolbox.with_recorder(recorder.clone());
    if plan.hooks {
        toolbox = toolbox.with_policies(vec![Arc::new(Slow(Arc::clone(&bodies)))]);
    }
    let run = toolbox.run_program(ProgramRequest { ..request });
    let report = tokio::time::timeout(Duration::from_secs(20), run)
        .await
        .map_err(|_| TestCaseError::fail("hangs"))?
        .unwrap();
    let events = recorder.records().unwrap();
    turns(20).await;
    prop_assert_eq!(
        events.len(),
        recorder.records().unwrap().len(),
        "events after the return"
    );
    prop_assert!(
        !bodies.broken.load(Ordering::SeqCst),
        "an exclusive call or a post-execute was not alone"
    );
    prop_assert!(bodies.peak.load(Ordering::SeqCst) <= plan.limit);
    prop_assert_eq!(
        bodies.safe.load(Ordering::SeqCst) + bodies.exclusive.load(Ordering::SeqCst),
        0
    );

    let mut open: HashMap<String, bool> = HashMap::new();
    let (mut last_start, mut last_settle, mut settled) = (0, 0, 0);
    for record in &events {
        match &record.event {
            Event::CodeDispatchStart(start) => {
                let number = number(&start.sub_call_id);
                prop_assert!(number > last_start, "starts out of order");
                last_start = number;
                let alone = start.name == "alone";
                if alone {
                    prop_assert!(open.is_empty(), "an exclusive call started beside others");
                }
                prop_assert!(
                    !open.values().any(|&alone| alone),
                    "something started beside an exclusive call"
                );
                open.insert(start.sub_call_id.clone(), alone);
            }
            Event::CodeDispatch(settle) => {
                let number = number(&settle.sub_call_id);
                prop_assert!(number > last_settle, "settled out of order");
                last_settle = number;
                settled += 1;
                prop_assert!(
                    open.remove(&settle.sub_call_id).is_some(),
                    "settled without a start, or twice"
                );
            }
            _ => {}
        }
    }
    prop_assert!(open.is_empty(), "started and never settled: {:?}", open);
    prop_assert_eq!(settled, report.calls.len());
    if plan.ends_after.is_none() {
        prop_assert_eq!(settled, plan.calls.len());
        prop_assert_eq!(*answered.lock().unwrap(), plan.calls.len());
    }
    Ok(())
}

fn number(id: &str) -> usize {
    id.rsplit(':').next().unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_schedule_keeps_the_rules(plan in plans()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(hold(plan))?;
    }
}
