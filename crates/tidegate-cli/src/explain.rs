//! `tidegate explain`: explains replies and calls, and changes nothing.

use clap::{Args, Subcommand};

mod call;
mod raw_reply;
mod reply;
mod text;

/// Say what tidegate understands of something.
#[derive(Args)]
pub struct Explain {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Call(call::ExplainCall),
    Reply(reply::ExplainReply),
}

impl Explain {
    pub fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Call(call) => call.run(),
            What::Reply(reply) => reply.run(),
        }
    }
}
