//! Who calls: a token in the `Authorization` header, or a ticket in a cookie with its companion for writes.

use http::{Method, header};
use jiff::Timestamp;

use super::request::{Plain, decode};
use crate::hypervisor::access::Access;

const FAILED: &str = "Authentication failed!";

/// The full id of the caller, or the words of the refusal.
pub(super) fn identify(access: &Access, request: &Plain, now: Timestamp) -> Result<String, &'static str> {
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = header(header::AUTHORIZATION.as_str()).unwrap_or_default();
    if let Some(token) =
        authorization.strip_prefix("PVEAPIToken").and_then(|rest| rest.strip_prefix(['=', ' ']))
    {
        return access.token(&decode(token, false), now).ok_or(FAILED);
    }
    let cookies = header(header::COOKIE.as_str()).unwrap_or_default();
    let ticket = cookies.split(';').find_map(|cookie| cookie.trim().strip_prefix("PVEAuthCookie="));
    let user = access.ticket(&decode(ticket.ok_or("No ticket")?, false), now).ok_or(FAILED)?;
    let csrf = header("CSRFPreventionToken").unwrap_or_default();
    if request.method != Method::GET && !access.csrf_valid(csrf, &user, now) {
        return Err("Permission denied - invalid csrf token");
    }
    Ok(user)
}
