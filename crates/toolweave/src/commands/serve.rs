//! `toolweave serve`: the gateway, over standard input and output.

use toolweave_mcp::{GatewayConfig, serve_stdio};

use crate::Environment;
use crate::args::ServeArgs;
use crate::assemble::{Assembly, Overrides};
use crate::exit_status::ExitStatus;

pub(crate) async fn run(args: ServeArgs, environment: &Environment) -> anyhow::Result<ExitStatus> {
    let mut config = environment.config(&args.source, &args.runtime)?;
    // A client starts its servers in a directory of its own choice, so nothing there is offered unasked.
    if args.source.root.is_none() && config.files.is_empty() {
        config.builtins.value = None;
    }
    let overrides = Overrides {
        mode: args.mode.map(super::sdk::mode_of),
    };
    let assembly = Assembly::start(&config, environment, overrides).await?;
    assembly.warm();
    // A missing runtime is an error now, not at the client's first request.
    if let Err(error) = assembly.toolbox.present() {
        assembly.shutdown(&environment.terminal).await;
        return Err(crate::NoRuntime::from(error).into());
    }
    let gateway = GatewayConfig {
        upstreams: Some(assembly.upstreams().clone()),
        ..GatewayConfig::default()
    };
    let served = serve_stdio(assembly.toolbox.clone(), gateway).await;
    assembly.shutdown(&environment.terminal).await;
    served?;
    Ok(ExitStatus::Ok)
}
