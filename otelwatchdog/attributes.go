package otelwatchdog

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/seed62658d38/watchdog"
)

// The names of the span and of its events.
const (
	spanName  = "watchdog.run"
	eventName = "watchdog.trip"
)

// The attribute keys.
const (
	runKey     = attribute.Key("watchdog.run.id")
	parentKey  = attribute.Key("watchdog.run.parent")
	attemptKey = attribute.Key("watchdog.run.attempt")
	endKey     = attribute.Key("watchdog.run.end")

	reasonKey    = attribute.Key("watchdog.reason")
	directiveKey = attribute.Key("watchdog.directive")
	observedKey  = attribute.Key("watchdog.observe_only")
	layerKey     = attribute.Key("watchdog.layer")

	tripKey    = attribute.Key("watchdog.trip.attempt")
	usedKey    = attribute.Key("watchdog.used.ms")
	allowedKey = attribute.Key("watchdog.allowed.ms")

	spendUsedKey     = attribute.Key("watchdog.spend.used")
	spendAdmittedKey = attribute.Key("watchdog.spend.admitted")
	spendAllowedKey  = attribute.Key("watchdog.spend.allowed")
	spendNeededKey   = attribute.Key("watchdog.spend.needed")
)

// MaxHostReasons is how many codes of the host's own an [Instrument] reports by name; it reports any further one as
// [OtherReason].
const MaxHostReasons = 50

// OtherReason replaces the codes past [MaxHostReasons].
const OtherReason watchdog.StopReason = "other"

// reasons holds the host's own codes so far.
type reasons struct {
	mu  sync.Mutex
	met map[watchdog.StopReason]struct{}
}

// bounded returns the code, or [OtherReason] if there are too many others already.
func (r *reasons) bounded(code watchdog.StopReason) watchdog.StopReason {
	if code.Own() {
		return code
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, met := r.met[code]; met {
		return code
	}
	if len(r.met) == MaxHostReasons {
		return OtherReason
	}
	r.met[code] = struct{}{}
	return code
}

// identity returns the attributes that identify a span's run.
func identity(wd *watchdog.Watchdog) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 1, 3)
	attributes[0] = runKey.String(wd.ID())
	if parent := wd.Parent(); parent != "" {
		attributes = append(attributes, parentKey.String(parent))
	}
	if number := wd.Attempt().Number; number > 0 {
		attributes = append(attributes, attemptKey.Int(number))
	}
	return attributes
}

// tripAttributes returns the attributes of a trip's metrics, which are also the first ones of its event.
func (i *Instrument) tripAttributes(d watchdog.Directive, layer bool) []attribute.KeyValue {
	return []attribute.KeyValue{
		reasonKey.String(string(i.reasons.bounded(d.Reason))), directiveKey.String(string(d.Kind)),
		observedKey.Bool(d.ObserveOnly), layerKey.Bool(layer),
	}
}

// usage returns the attributes for how far the limit is used: time, or what a counted limit counts.
func usage(d watchdog.Directive) []attribute.KeyValue {
	if u := d.Usage; u != nil {
		return append(limitAttributes(u.Limit, u.Tool, u.Currency), tripKey.Int(d.Rung),
			spendUsedKey.Int64(u.Used), spendAdmittedKey.Int64(u.Admitted), spendAllowedKey.Int64(u.Allowed),
			spendNeededKey.Int64(u.Needed))
	}
	return []attribute.KeyValue{
		tripKey.Int(d.Rung), usedKey.Float64(milliseconds(d.Used)), allowedKey.Float64(milliseconds(d.Allowed)),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
