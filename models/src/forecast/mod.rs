//! Forecast features, inference and the guard over them, fed event by event.
