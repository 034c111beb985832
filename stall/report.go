package stall

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// A report writes the artifacts of one command. A nil report writes nothing. Errors are kept for the result. If a disk
// hangs, it delays the command's end by at most the record timeout.
type report struct {
	cfg   *Config
	dir   *artifact.Dir
	wrote bool
	hangs bool           // a write did not return; no other write is tried
	first artifact.Event // event.json as it was before the first signal
	errs  []error
}

func openReport(cfg *Config) (*report, error) {
	if cfg.Artifacts == "" {
		return nil, nil
	}
	dir, err := artifact.Open(cfg.Artifacts, cfg.Step)
	if err != nil {
		return nil, err
	}
	return &report{cfg: cfg, dir: dir}, nil
}

// begin sets the artifacts of an earlier attempt aside.
func (r *report) begin() error {
	if r == nil {
		return nil
	}
	return inTime(r.cfg.RecordTimeout, r.dir.SetAside)
}

func (r *report) do(write func() error) {
	if r.hangs {
		return
	}
	err := inTime(r.cfg.RecordTimeout, write)
	switch {
	case errors.Is(err, bounded.ErrLeftBehind):
		r.hangs = true
		r.errs = append(r.errs, fmt.Errorf("write artifacts: the disk did not answer in %v", r.cfg.RecordTimeout))
	case err != nil:
		r.errs = append(r.errs, err)
	default:
		r.wrote = true
	}
}

// inTime makes a call and waits for it, but not longer than the timeout.
func inTime(timeout time.Duration, call func() error) error {
	wait, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := bounded.Do(wait, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// probe appends a line to probe.jsonl.
func (r *report) probe(s *sentinel, p probeResult, v verdict.SeriesVerdict) {
	if r == nil {
		return
	}
	line := artifact.Probe{
		AtUnixMS: s.began.Add(p.began).UnixMilli(), DurationMS: p.took.Milliseconds(), ExitCode: p.exit,
		Class: string(p.Class), Digest: p.Digest, Same: v.Equal, Blind: string(p.blind), Fingerprints: p.Fingerprints,
	}
	if s.cfg.Probe.Publish {
		line.Reasons, line.Summary = p.Reasons, p.Summary
	}
	r.do(func() error { return r.dir.AppendProbe(line) })
}

// event writes event.json before the first signal. The stop is nil if no signal will be sent.
func (r *report) event(s *sentinel, stop *watchdog.Stop) {
	if r == nil {
		return
	}
	t := s.result.Trip
	r.first = artifact.Event{
		CheckID: s.cfg.CheckID, Workflow: s.cfg.Workflow, Iteration: s.cfg.Iteration, RunID: s.run.ID(),
		Trigger: artifact.Trigger{Kind: string(t.Kind), Reason: t.Reason, ObservedAtUnix: t.ObservedAt.Unix()},
		Action:  artifact.Action{Kind: string(t.Action)},
		Reasons: t.Reasons, Fingerprints: t.Fingerprints, Complete: stop == nil,
		Pointers: artifact.Pointers{StepLog: s.cfg.StepLog},
	}
	if stop != nil {
		r.first.EventID = stop.EventID()
	}
	for _, step := range s.cfg.steps(t.Action) {
		r.first.Action.Requested = append(r.first.Action.Requested, signame.Name(step.Signal))
	}
	e := r.first
	r.do(func() error { return r.dir.WriteEvent(e) })
}

// complete writes the other artifacts after the last signal, and event.json again with what happened. Without a trip
// there is nothing to write.
func (r *report) complete(s *sentinel) {
	if r == nil {
		return
	}
	if s.result.Trip != nil {
		r.writeTail(s)
		r.writeDecision(s)
		e := r.completed(s)
		r.do(func() error { return r.dir.WriteEvent(e) })
	}
	if r.wrote {
		s.result.Artifacts = filepath.Join(r.cfg.Artifacts, r.cfg.Step, artifact.Folder)
	}
	s.result.ArtifactErr = errors.Join(r.errs...)
}

// completed returns the first event with what was sent and how the command ended.
func (r *report) completed(s *sentinel) artifact.Event {
	e := r.first
	e.Complete, e.Finished = true, s.result.Finished
	if len(s.result.Requested) > 0 { // an ignored trip requests none, but the command may be ended later, by its run
		e.Action.Requested = nil
		for _, sig := range s.result.Requested {
			e.Action.Requested = append(e.Action.Requested, signame.Name(sig))
		}
	}
	e.AlsoEnd = alsoEndRecord(s.result.AlsoEnded)
	e.Action.Terminated = s.result.Terminated
	if by := s.result.EndedBy; by != 0 {
		e.Action.EndedBy = signame.Name(by)
	}
	if code := s.result.ExitCode; s.result.Signal == 0 && isClosed(s.tree.Gone()) {
		e.Action.ExitCode = &code
	}
	for _, sent := range s.result.Sent {
		e.Action.Sent = append(e.Action.Sent, artifact.Sent{
			Signal: signame.Name(sent.Signal), SentAtUnixMS: sent.At.UnixMilli(), Processes: sent.Processes,
			Missed: sent.Missed,
		})
	}
	return e
}

// alsoEndRecord returns the part of event.json about an AlsoEnd, or nil if it was not executed.
func alsoEndRecord(a *AlsoEnded) *artifact.AlsoEnd {
	if a == nil {
		return nil
	}
	r := &artifact.AlsoEnd{Failed: a.Failed, DurationMS: a.Elapsed.Milliseconds()}
	if a.ExitCode >= 0 {
		r.ExitCode = &a.ExitCode
	}
	return r
}

// writeDecision writes decision.json if the command was a completion check that stalled.
func (r *report) writeDecision(s *sentinel) {
	if !s.result.Incomplete {
		return
	}
	t := s.result.Trip
	d := artifact.Decision{
		CheckID: s.cfg.CheckID, Workflow: s.cfg.Workflow, Iteration: s.cfg.Iteration,
		Reasons: t.Reasons, Fingerprints: t.Fingerprints, DecidedAtUnix: time.Now().Unix(),
	}
	r.do(func() error { return r.dir.WriteDecision(d) })
}

// writeTail writes the redacted end of standard error. If the redaction fails, it writes nothing.
func (r *report) writeTail(s *sentinel) {
	if s.cfg.Tail == nil {
		return
	}
	var text []byte
	err := inTime(r.cfg.RecordTimeout, func() error { text = s.cfg.Tail.Redact(s.io.tail.bytes()); return nil })
	if err == nil {
		r.do(func() error { return r.dir.WriteTail(text) })
		return
	}
	reason := "Tail.Redact panicked" // without the panic's value, which may hold what was to be redacted
	switch {
	case errors.Is(err, bounded.ErrLeftBehind):
		reason = fmt.Sprintf("Tail.Redact did not return in %v", r.cfg.RecordTimeout)
	case errors.Is(err, bounded.ErrExited):
		reason = "Tail.Redact ended its goroutine"
	}
	r.errs = append(r.errs, fmt.Errorf("write the tail of standard error: %s; the tail was not written", reason))
}

func (r *report) close() {
	if r != nil && !r.hangs {
		_ = r.dir.Close() // only a folder: nothing is lost
	}
}
