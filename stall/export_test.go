package stall

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// A Judge is the judge of a config, to be given instants of a test.
type Judge struct{ judge }

// NewJudge makes one.
func NewJudge(cfg Config) *Judge {
	cfg = cfg.complete()
	return &Judge{newJudge(&cfg)}
}

// Found is what a judge found.
type Found struct {
	Kind                    TripKind
	Code                    watchdog.StopReason
	Reason, Summary         string
	Fingerprints, Published []string
	Used, Allowed           time.Duration
}

func shown(f *finding) *Found {
	if f == nil {
		return nil
	}
	return &Found{f.kind, f.code(), f.reason, f.summary, f.fingerprints, f.published, f.used, f.allowed}
}

// Silence judges the output.
func (j *Judge) Silence(now, last time.Duration, blocked bool) (*Found, time.Duration) {
	f, wait := j.silence(now, last, blocked)
	return shown(f), wait
}

// Pattern judges a line that matched.
func (j *Judge) Pattern(n int) *Found { return shown(j.pattern(n)) }

// A Look is what a probe of a test saw.
type Look struct {
	Class, Digest, Blind string
	Fingerprints         []string
}

// Probed judges a look.
func (j *Judge) Probed(l Look, now time.Duration) *Found {
	o := observed{blind: probe.Blind(l.Blind), Observation: probe.Observation{
		Class: verdict.Class(l.Class), Digest: l.Digest, Fingerprints: l.Fingerprints, Reasons: []string{"reason"}, Summary: "summary",
	}}
	f, _ := j.probed(o, now)
	return shown(f)
}
