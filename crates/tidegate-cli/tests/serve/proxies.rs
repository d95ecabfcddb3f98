//! Through a proxy, where the environment names one.

use super::sidecar::Sidecar;
use super::{WELL, ask, somebody};

const CONFIG: &str = "[services.plain]\nupstream = \"http://api.example/base\"\n\
    [services.secure]\nupstream = \"https://api.example\"\nretry = { max_retries = 0 }\n\
    [services.direct]\nupstream = \"http://direct.example\"\nretry = { max_retries = 0 }\n";

#[test]
fn http_goes_through_its_proxy_as_a_whole_url() {
    let (proxy, asked) = somebody(WELL);
    let url = format!("http://me:word@{proxy}");
    let sidecar = Sidecar::start(CONFIG, &[("HTTP_PROXY", &url), ("NO_PROXY", "direct.example")]);
    assert!(ask(sidecar.address, "/plain/x", "").ends_with("well"));
    let request = asked.recv().expect("asked").to_ascii_lowercase();
    assert!(request.starts_with("get http://api.example/base/x http/1.1\r\n"), "{request}");
    assert!(request.contains("host: api.example\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: basic bwu6d29yza=="), "{request}");
    // A name that exists nowhere: it was not asked of the proxy.
    assert!(ask(sidecar.address, "/direct/x", "").contains("upstream_unreachable"));
    assert!(asked.try_recv().is_err());
}

#[test]
fn https_goes_through_a_tunnel() {
    let (proxy, asked) = somebody("HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\n\r\n");
    let url = format!("http://me:word@{proxy}");
    let sidecar = Sidecar::start(CONFIG, &[("HTTPS_PROXY", &url)]);
    assert!(
        ask(sidecar.address, "/secure/x", "authorization: Bearer hunter2\r\n")
            .contains("upstream_unreachable")
    );
    let request = asked.recv().expect("asked").to_ascii_lowercase();
    assert!(request.starts_with("connect api.example:443 http/1.1\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: basic bwu6d29yza=="), "{request}");
    assert!(!request.contains("hunter2"), "the proxy learns no key: {request}");
}

#[test]
fn what_is_on_this_machine_needs_no_proxy() {
    let (proxy, asked) = somebody(WELL);
    let (upstream, _asked) = somebody(WELL);
    let config = format!("[services.api]\nupstream = \"http://{upstream}\"\n");
    let sidecar = Sidecar::start(&config, &[("HTTP_PROXY", &format!("http://{proxy}"))]);
    assert!(ask(sidecar.address, "/api/x", "").ends_with("well"));
    assert!(asked.try_recv().is_err());
}
