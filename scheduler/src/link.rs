//! The signed, expiring link that sends a client straight to the chosen box.
//!
//! Berth answers where to go; the bytes never pass through it. The link carries the lease id as a
//! fencing token, an expiry in wall time and an HMAC-SHA256 over a canonical text, with the id of the
//! key, so that keys can be rotated. A box checks it with [`verify`], and refuses a lease id below the
//! highest it has seen for the same ball.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use berth_models::domain::Ball;

/// Shortest accepted key, in bytes.
pub const KEY_BYTES_MIN: usize = 16;
/// First line of the canonical text; another form gets another name.
const FORM: &str = "berth-link.v1";
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Bytes turned to hex at a time: a whole signature.
const HEX_BYTES: usize = 32;

/// Why a link is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A field is absent or is not what it should be.
    #[error("the link's {0} is missing or malformed")]
    Field(&'static str),
    /// It was signed with another key.
    #[error("the link was signed with key {0}, which is not this box's")]
    UnknownKey(String),
    /// It was made or changed by somebody without the key, or is meant for another box.
    #[error("the link's signature does not fit it")]
    Signature,
    /// Its time is over.
    #[error("the link ended at {expires_at_ms} (UTC epoch milliseconds)")]
    Expired {
        /// Its end.
        expires_at_ms: u64,
    },
    /// The key is too short to protect anything.
    #[error("a link key has {0} bytes; at least {KEY_BYTES_MIN} are needed (try: openssl rand -hex 32)")]
    ShortKey(usize),
}

/// What a valid link grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Whose ball it is.
    pub tenant: String,
    /// The ball.
    pub ball_id: String,
    /// The lease, which is the fencing token: it grows with every grant.
    pub lease_id: u64,
    /// When the grant ends, in UTC epoch milliseconds.
    pub expires_at_ms: u64,
}

/// A key that signs and verifies links.
#[derive(Clone)]
pub struct LinkKey {
    key_id: String,
    mac: Hmac<Sha256>,
}

impl LinkKey {
    /// A key from its bytes.
    ///
    /// # Errors
    /// [`LinkError::ShortKey`].
    pub fn new(bytes: &[u8]) -> Result<Self, LinkError> {
        if bytes.len() < KEY_BYTES_MIN {
            return Err(LinkError::ShortKey(bytes.len()));
        }
        let mac = Hmac::new_from_slice(bytes).map_err(|_| LinkError::ShortKey(bytes.len()))?;
        let mut key_id = String::new();
        push_hex(&mut key_id, &Sha256::digest(bytes)[..4]);
        Ok(Self { key_id, mac })
    }

    /// Id of the key: the first 8 hex digits of its SHA-256.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The link to `endpoint` of `box_id` for `ball` under lease `lease_id`, valid until
    /// `expires_at_ms` (UTC epoch milliseconds).
    #[must_use]
    pub fn sign(
        &self,
        endpoint: &str,
        box_id: &str,
        ball: &Ball,
        lease_id: u64,
        expires_at_ms: u64,
    ) -> String {
        let mut link = String::with_capacity(endpoint.len() + 256);
        link.push_str(endpoint);
        link.push(if endpoint.contains('?') { '&' } else { '?' });
        link.push_str("tenant=");
        push_encoded(&mut link, &ball.tenant);
        link.push_str("&ball_id=");
        push_encoded(&mut link, &ball.ball_id);
        link.push_str("&lease_id=");
        push_number(&mut link, lease_id);
        link.push_str("&expires_at_ms=");
        push_number(&mut link, expires_at_ms);
        link.push_str("&key_id=");
        link.push_str(&self.key_id);
        link.push_str("&signature=");
        let grant = (&*ball.tenant, &*ball.ball_id, lease_id, expires_at_ms);
        push_hex(&mut link, &self.mac(box_id, grant).finalize().into_bytes());
        link
    }

    fn mac(
        &self,
        box_id: &str,
        (tenant, ball_id, lease_id, expires_at_ms): (&str, &str, u64, u64),
    ) -> Hmac<Sha256> {
        // Identifiers hold no control characters, so the line breaks can't be forged.
        let mut text = String::with_capacity(160);
        for part in [FORM, &self.key_id, box_id, tenant, ball_id] {
            text.push_str(part);
            text.push('\n');
        }
        push_number(&mut text, lease_id);
        text.push('\n');
        push_number(&mut text, expires_at_ms);
        let mut mac = self.mac.clone();
        mac.update(text.as_bytes());
        mac
    }
}

/// Check the query of a link that came to box `box_id` at `now_ms` (the box's UTC epoch
/// milliseconds); the link stops `margin_ms` before its lease does, against clocks that differ.
///
/// # Errors
/// See [`LinkError`].
pub fn verify(
    query: &str,
    box_id: &str,
    keys: &[LinkKey],
    now_ms: u64,
    margin_ms: u64,
) -> Result<Grant, LinkError> {
    let field = |name: &'static str| -> Result<String, LinkError> {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(key, _)| *key == name).map(|(_, value)| value);
        value.and_then(decode).ok_or(LinkError::Field(name))
    };
    let number = |name: &'static str| -> Result<u64, LinkError> {
        field(name)?.parse().map_err(|_| LinkError::Field(name))
    };
    let grant = Grant {
        tenant: field("tenant")?,
        ball_id: field("ball_id")?,
        lease_id: number("lease_id")?,
        expires_at_ms: number("expires_at_ms")?,
    };
    let key_id = field("key_id")?;
    let key = keys.iter().find(|key| key.key_id == key_id);
    let key = key.ok_or(LinkError::UnknownKey(key_id))?;
    let signature = unhex(&field("signature")?).ok_or(LinkError::Field("signature"))?;
    let signed = (&*grant.tenant, &*grant.ball_id, grant.lease_id, grant.expires_at_ms);
    // Compares in constant time.
    key.mac(box_id, signed).verify_slice(&signature).map_err(|_| LinkError::Signature)?;
    if now_ms.saturating_add(margin_ms) >= grant.expires_at_ms {
        return Err(LinkError::Expired { expires_at_ms: grant.expires_at_ms });
    }
    Ok(grant)
}

fn push_number(text: &mut String, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for bytes in bytes.chunks(HEX_BYTES) {
        let mut digits = [0; 2 * HEX_BYTES];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        // Digits are ASCII, so this is never lossy; it is one copy instead of a check for each.
        text.push_str(&String::from_utf8_lossy(&digits[..2 * bytes.len()]));
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| HEX.iter().position(|hex| *hex == byte);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

fn push_encoded(text: &mut String, value: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if value.bytes().all(is_plain) {
        return text.push_str(value);
    }
    for byte in value.bytes() {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            push_hex(text, &[byte]);
        }
    }
}

fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let pair = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(pair, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ball(ball_id: &str) -> Ball {
        serde_json::from_value(serde_json::json!({ "tenant": "a b&c", "ball_id": ball_id })).unwrap()
    }

    fn query(link: &str) -> &str {
        link.split_once('?').unwrap().1
    }

    #[test]
    fn a_link_is_good_for_its_box_its_ball_and_its_time_alone() {
        let key = LinkKey::new(&[7; 32]).unwrap();
        let other = LinkKey::new(&[8; 32]).unwrap();
        let link = key.sign("http://box:1/put", "box", &ball("ü/1"), 42, 10_000);
        let check = |query: &str, box_id: &str, now_ms| {
            verify(query, box_id, &[other.clone(), key.clone()], now_ms, 500)
        };
        let grant = check(query(&link), "box", 9_000).unwrap();
        assert_eq!((&*grant.tenant, &*grant.ball_id, grant.lease_id), ("a b&c", "ü/1", 42));
        assert_eq!(check(query(&link), "box2", 0), Err(LinkError::Signature));
        assert_eq!(
            check(&query(&link).replace("lease_id=42", "lease_id=43"), "box", 0),
            Err(LinkError::Signature)
        );
        assert!(matches!(check(query(&link), "box", 9_500), Err(LinkError::Expired { .. })));
        assert!(matches!(
            verify(query(&link), "box", std::slice::from_ref(&other), 0, 0),
            Err(LinkError::UnknownKey(_))
        ));
        assert_eq!(check("tenant=a", "box", 0), Err(LinkError::Field("ball_id")));
    }

    #[test]
    fn an_endpoint_with_a_query_keeps_it() {
        let key = LinkKey::new(&[7; 32]).unwrap();
        let link = key.sign("http://box/put?zone=1", "box", &ball("1"), 1, 2);
        assert!(link.starts_with("http://box/put?zone=1&tenant="));
        assert!(verify(query(&link), "box", &[key], 0, 0).is_ok());
        assert!(matches!(LinkKey::new(b"short"), Err(LinkError::ShortKey(5))));
    }
}
