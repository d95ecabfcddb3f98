//! The table of vendors. Each file is one vendor: its headers, errors, counting, preset, key header and error shape.
//!
//! To add a vendor, add its file, its `mod` line and its line in [`TABLE`].

mod anthropic;
mod aws_bedrock;
mod azure_openai;
mod cerebras;
mod cloudflare;
mod cohere;
mod confluence_dc;
mod deepseek;
mod discord;
mod dockerhub;
mod fireworks;
mod generic;
mod generic_gravitee;
mod github;
mod gitlab;
mod google_gemini;
mod groq;
mod hubspot;
mod jira;
mod kimi;
mod linear;
mod litellm;
mod mistral;
mod notion;
mod nous;
mod okta;
mod openai;
mod openrouter;
mod reddit;
mod salesforce;
mod shopify;
mod slack;
mod stripe;
mod together;
mod twilio;
mod x_twitter;
mod xai;
mod zendesk;

use super::vendor::Vendor;

/// The vendors in the order of their signs: if a reply shows several vendors, the first one counts. Gateways stand
/// first because they also pass on the headers of the upstream behind them. Azure stands before OpenAI because its
/// replies carry OpenAI's headers too.
static TABLE: &[&Vendor] = &[
    &litellm::VENDOR,
    &openrouter::VENDOR,
    &generic_gravitee::VENDOR,
    &azure_openai::VENDOR,
    &anthropic::VENDOR,
    &google_gemini::VENDOR,
    &mistral::VENDOR,
    &groq::VENDOR,
    &cohere::VENDOR,
    &deepseek::VENDOR,
    &xai::VENDOR,
    &together::VENDOR,
    &aws_bedrock::VENDOR,
    &cerebras::VENDOR,
    &openai::VENDOR,
    &fireworks::VENDOR,
    &kimi::VENDOR,
    &nous::VENDOR,
    &github::VENDOR,
    &gitlab::VENDOR,
    &stripe::VENDOR,
    &shopify::VENDOR,
    &slack::VENDOR,
    &discord::VENDOR,
    &x_twitter::VENDOR,
    &reddit::VENDOR,
    &notion::VENDOR,
    &cloudflare::VENDOR,
    &confluence_dc::VENDOR,
    &jira::VENDOR,
    &salesforce::VENDOR,
    &twilio::VENDOR,
    &hubspot::VENDOR,
    &zendesk::VENDOR,
    &okta::VENDOR,
    &linear::VENDOR,
    &dockerhub::VENDOR,
    &generic::VENDOR,
];

/// Returns all vendors of the table.
pub fn all() -> impl Iterator<Item = &'static Vendor> {
    TABLE.iter().copied()
}

/// Returns the vendor of that name, without regard to case. Shared conventions may be named too (`ietf-draft-07`,
/// `generic-kong`): they are all read by the generic row.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Vendor> {
    let called = |known: &&str| known.eq_ignore_ascii_case(name);
    let known = all().find(|vendor| called(&vendor.name) || vendor.aliases.iter().any(called));
    let shared =
        |family: &str| name.get(..family.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(family));
    known.or_else(|| (shared("generic-") || shared("ietf-")).then(generic))
}

/// Returns the row of all upstreams that have none of their own.
#[must_use]
pub fn generic() -> &'static Vendor {
    &generic::VENDOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendor_has_one_name_of_its_own_and_says_where_its_facts_are_from() {
        let mut seen = std::collections::HashSet::new();
        for vendor in all() {
            for name in std::iter::once(&vendor.name).chain(vendor.aliases) {
                assert!(seen.insert(name.to_ascii_lowercase()), "{name} is taken twice");
                assert_eq!(by_name(name).unwrap().name, vendor.name);
            }
            assert!(vendor.source.contains("20"), "{} names no source with its date", vendor.name);
        }
        assert_eq!(by_name("GitHub").unwrap().name, "github");
        assert_eq!(by_name("ietf-draft-08..11").unwrap().name, "generic");
        assert_eq!(by_name("generic-gravitee").unwrap().name, "generic-gravitee");
        assert!(by_name("nobody").is_none());
    }
}
