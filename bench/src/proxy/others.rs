//! The proxies of others, set up as their own documentation says.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

use crate::load::process::{Folder, Process, free_address};

/// nginx with connections to the upstream that it keeps; none if it is not installed.
pub fn nginx(folder: &Folder, upstream: SocketAddr, workers: usize) -> Result<Option<Process>> {
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| Path::new(path).exists());
    let Some(program) = program else { return Ok(None) };
    let (address, path) = (free_address()?, folder.path().display());
    let config = format!(
        "daemon off; worker_processes {workers}; pid {path}/nginx.pid; error_log {path}/nginx.log;
         events {{ worker_connections 4096; }}
         http {{
           access_log off; keepalive_requests 1000000000;
           client_body_temp_path {path}/body; proxy_temp_path {path}/proxy; fastcgi_temp_path {path}/fastcgi;
           uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;
           upstream api {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; }}
           server {{
             listen {address};
             location / {{ proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}
           }}
         }}"
    );
    let config = folder.write("nginx.conf", &config)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(folder.path()).arg("-c").arg(config).stderr(Stdio::null());
    Process::listening(command, address, Duration::from_secs(10)).map(Some)
}

/// LiteLLM's proxy with one worker, which asks for that key; none if it is not installed in `target/bench/litellm`.
pub fn litellm(folder: &Folder, upstream: SocketAddr, key: &str) -> Result<Option<Process>> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench/litellm/bin/litellm");
    if !program.exists() {
        return Ok(None);
    }
    let config = format!(
        "model_list:
  - model_name: gpt-4o
    litellm_params: {{ model: openai/gpt-4o, api_base: \"http://{upstream}/v1\", api_key: any }}
litellm_settings: {{ telemetry: false }}
"
    );
    let config = folder.write("litellm.yaml", &config)?;
    let address = free_address()?;
    let mut command = Command::new(program);
    command.args(["--host", "127.0.0.1", "--num_workers", "1", "--port", &address.port().to_string()]);
    command.arg("--config").arg(config).current_dir(folder.path());
    command
        .env("LITELLM_MASTER_KEY", key)
        .env("LITELLM_LOG", "ERROR")
        .env("NO_PROXY", "127.0.0.1")
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Process::listening(command, address, Duration::from_secs(120)).map(Some)
}
