//! Text lines: Apache and nginx (`host - user [time] "request" status bytes …`) and Envoy (`[time] "request" …`).

use super::{Request, duration, set_upstream};
use crate::RejectReason;
use crate::time::{Clock, parse_common_log};

/// Keys of a request's time in seconds, as people name them in log formats.
const TIME_KEYS: [&str; 3] = ["rt", "request_time", "duration"];
const UPSTREAM_KEYS: [&str; 5] = ["upstream", "upstream_addr", "uaddr", "addr", "ua"];

/// Host, identity and user stand before the stamp; a virtual host may stand before them.
const WORDS_BEFORE_STAMP: usize = 3;

/// A word of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Bare(&'a str),
    Quoted(&'a str),
    Bracketed(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Bare(text) | Self::Quoted(text) | Self::Bracketed(text) => text,
        }
    }
}

pub(super) fn parse(line: &str) -> Result<Request, RejectReason> {
    let tokens = split(line)?;
    let at = tokens.iter().position(|token| matches!(token, Token::Bracketed(_)));
    let at = at.ok_or(RejectReason::BrokenLine)?;
    let rest = &tokens[at + 1..];
    let [Token::Quoted(first), status, ..] = rest else {
        return Err(RejectReason::BrokenLine);
    };
    let mut request = Request {
        method: method_of(first),
        status: status.text().parse().map_err(|_| RejectReason::BadNumber)?,
        ..Request::default()
    };
    if at == 0 {
        parse_envoy(&mut request, tokens[at].text(), &rest[2..])?;
    } else if at < WORDS_BEFORE_STAMP {
        // The tail of a line that was cut in two.
        return Err(RejectReason::BrokenLine);
    } else {
        (request.logged_ms, request.zone_ms) =
            parse_common_log(tokens[at].text()).ok_or(RejectReason::BadTime)?;
        let bytes = rest.get(2).ok_or(RejectReason::BrokenLine)?.text();
        request.bytes = parse_bytes(bytes)?;
        parse_extras(&mut request, &rest[3..])?;
    }
    Ok(request)
}

/// The method of a request line, where it looks like one.
fn method_of(request: &str) -> String {
    let word = request.split(' ').next().unwrap_or_default();
    let is_method = (3..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_method { word.to_owned() } else { String::new() }
}

fn parse_bytes(text: &str) -> Result<Option<f64>, RejectReason> {
    if text == "-" {
        return Ok(None);
    }
    text.parse::<u64>().map(|bytes| Some(bytes as f64)).map_err(|_| RejectReason::BadNumber)
}

/// Envoy: flags and details, then bytes received, bytes sent, ms of the request, ms of the upstream, then
/// quoted: who forwarded, agent, id, authority, upstream host.
fn parse_envoy(request: &mut Request, stamp: &str, rest: &[Token<'_>]) -> Result<(), RejectReason> {
    const UPSTREAM_AFTER_BYTES: usize = 8;
    request.logged_ms = Clock::Iso.parse(stamp)?;
    request.is_arrival = true;
    let is_whole = |token: &Token<'_>| token.text().parse::<u64>().is_ok();
    let at = rest.windows(3).position(|three| three.iter().all(is_whole)).ok_or(RejectReason::BrokenLine)?;
    request.bytes = parse_bytes(rest[at + 1].text())?;
    let duration_ms = rest[at + 2].text().parse::<f64>().map_err(|_| RejectReason::BadNumber)?;
    request.duration_ms = Some(duration(duration_ms, 1.0)?);
    if let Some(Token::Quoted(upstream)) = rest.get(at + UPSTREAM_AFTER_BYTES) {
        set_upstream(request, upstream);
    }
    Ok(())
}

/// What stands behind the bytes: referer and agent (quoted), then keyed or telling words in any order.
fn parse_extras(request: &mut Request, rest: &[Token<'_>]) -> Result<(), RejectReason> {
    let is_combined = matches!(rest, [Token::Quoted(_), Token::Quoted(_), ..]);
    for token in &rest[if is_combined { 2 } else { 0 }..] {
        let text = token.text().trim_end_matches(',');
        let keyed = match token {
            Token::Bare(word) => word.split_once('=').map(|(key, value)| (key, value.trim_matches('"'))),
            _ => None,
        };
        if let Some((key, value)) = keyed {
            if TIME_KEYS.contains(&key) && value != "-" {
                let seconds = value.parse::<f64>().map_err(|_| RejectReason::BadNumber)?;
                request.duration_ms = Some(duration(seconds, 1000.0)?);
            } else if UPSTREAM_KEYS.contains(&key) && value.split([',', ' ']).any(is_address) {
                set_upstream(request, value);
            }
        } else if text.split(", ").all(is_address) {
            set_upstream(request, text);
        } else if text.parse::<u64>().is_ok() {
            request.unkeyed += 1;
        } else if text.contains('.') && request.duration_ms.is_none() {
            // The first of several times is the request's, the others are the upstream's.
            if let Ok(seconds) = text.parse::<f64>() {
                request.duration_ms = Some(duration(seconds, 1000.0)?);
            }
        }
    }
    Ok(())
}

/// `10.0.0.1:8080`, `[::1]:80`, `web-3:80` or `unix:/run/app.sock`.
fn is_address(text: &str) -> bool {
    if text.starts_with("unix:/") {
        return true;
    }
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| {
        let is_host = !host.is_empty() && !host.contains(['/', ' ', '=']);
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// Cut a line at blanks outside quotes and brackets; `\"` inside quotes is no end.
fn split(line: &str) -> Result<Vec<Token<'_>>, RejectReason> {
    let mut tokens = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (token, after) = if let Some(inner) = rest.strip_prefix('"') {
            let end = quote_end(inner).ok_or(RejectReason::BrokenLine)?;
            (Token::Quoted(&inner[..end]), &inner[end + 1..])
        } else if let Some(end) = rest.strip_prefix('[').and_then(|inner| inner.find("] ")) {
            (Token::Bracketed(&rest[1..=end]), &rest[end + 2..])
        } else {
            let end = bare_end(rest).ok_or(RejectReason::BrokenLine)?;
            (Token::Bare(&rest[..end]), &rest[end..])
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err(RejectReason::BrokenLine);
        }
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// Where quoted text ends that began before `text`.
fn quote_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

/// Where a word ends; quotes inside it, as in `urt="0.1, 0.2"`, hold blanks together.
fn bare_end(text: &str) -> Option<usize> {
    let blank = text.find(char::is_whitespace).unwrap_or(text.len());
    match text[..blank].find("=\"") {
        Some(quote) => quote_end(&text[quote + 2..]).map(|end| quote + 2 + end + 1),
        None => Some(blank),
    }
}
