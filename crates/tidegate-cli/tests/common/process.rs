//! A process of the built command that says where it listens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// It is ended with the test.
pub struct Process {
    child: Child,
    /// `host:port`, from its first line.
    pub address: String,
}

impl Process {
    pub fn start(mut command: Command) -> Process {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        let mut first = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
        let address = first.trim().strip_prefix("http://").expect("a URL").to_owned();
        Process { child, address }
    }

    /// Begins a GET; its answer is there when it is read.
    pub fn begin(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {}\r\n\r\n", self.address).expect("sent");
        stream
    }

    /// The whole answer to a GET.
    pub fn get(&self, path: &str) -> String {
        let mut said = String::new();
        self.begin(path).read_to_string(&mut said).expect("an answer");
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
