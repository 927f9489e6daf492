//! The online scheduler: thin shells around the deciding core.
//!
//! `sequencer` is one mutex around [`berth_models::engine::Engine`], which holds all the logic
//! (expiry, idempotency, ownership, events): the sequencer adds the lock, the clock, the ledger's
//! group commit and the feed of the shadow, and nothing that decides.
