//! Salts of fingerprints, from the randomness of the operating system.

use tidegate_core::Salt;

/// Returns a salt that no other process has.
///
/// # Errors
/// If the system has no randomness to give.
pub(crate) fn random() -> Result<Salt, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|cause| format!("the system has no randomness to give: {cause}"))?;
    Ok(Salt::new(bytes))
}
