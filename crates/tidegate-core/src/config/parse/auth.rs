//! `[auth]`: who may use a sidecar.

use super::keys::{AUTH, TOKEN};
use super::walk::{Field, Kind, Walk};
use crate::config::{AuthConfig, TokenConfig, TokenHash};
use crate::model::priority::Priority;

const HASH: Kind =
    Kind { name: "a SHA-256", example: "make it with: printf %s \"$TOKEN\" | sha256sum | cut -d' ' -f1" };

impl Walk<'_> {
    pub(super) fn auth(&mut self, section: &Field<'_>) -> AuthConfig {
        let mut auth = AuthConfig::default();
        for field in self.table(section) {
            match field.name {
                "tokens" => {
                    for field in self.table(&field) {
                        auth.tokens.insert(field.name.to_owned(), self.token(&field));
                    }
                }
                _ => self.unknown_key(&field, &section.path, AUTH, None),
            }
        }
        auth
    }

    fn token(&mut self, section: &Field<'_>) -> TokenConfig {
        let mut token = TokenConfig::default();
        let fields = self.table(section);
        for field in &fields {
            match field.name {
                "sha256" => {
                    token.sha256 = self.parse(field, &HASH, TokenHash::parse).unwrap_or_default();
                }
                "priorities" => {
                    let names = Priority::ALL.map(|priority| (priority.name(), priority));
                    let items = self.items(field, "priorities = [\"low\", \"normal\"]");
                    // All are read, so that all that is wrong is told; what is left of them would say something else.
                    let read: Vec<Option<Priority>> =
                        items.iter().map(|item| self.choice(item, &names)).collect();
                    token.priorities = read.into_iter().collect();
                }
                "services" => {
                    let items = self.items(field, "services = [\"openai\"]");
                    let found = items.iter().filter_map(|item| self.string(item));
                    token.services = Some(found.collect());
                }
                "admin" => token.admin = self.flag(field).unwrap_or_default(),
                _ => self.unknown_key(field, &section.path, TOKEN, None),
            }
        }
        self.must_have(section, &fields, "sha256", "sha256 = \"…\", the hash of the token");
        token
    }
}
