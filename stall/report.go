package stall

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// A report writes the artifacts of one command. A nil one writes nothing. What cannot be written is kept for the result and holds nothing up for longer than the
// record timeout, also where a disk hangs.
type report struct {
	cfg   *Config
	dir   *artifact.Dir
	wrote bool
	hangs bool
	begun artifact.Event
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

// do writes one artifact.
func (r *report) do(write func() error) {
	if r.hangs {
		return
	}
	_, err := inTime(r.cfg.RecordTimeout, func() (struct{}, error) { return struct{}{}, write() })
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

// inTime makes a call and waits at most the timeout for it.
func inTime[T any](timeout time.Duration, call func() (T, error)) (T, error) {
	wait, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return bounded.Do(wait, call)
}

// probe adds a line about a probe.
func (r *report) probe(s *sentinel, o observed, v verdict.SeriesVerdict) {
	if r == nil {
		return
	}
	line := artifact.Probe{
		AtUnixMS: s.began.Add(o.began).UnixMilli(), DurationMS: o.took.Milliseconds(), ExitCode: o.exit,
		Class: string(o.Class), Digest: o.Digest, Same: v.Equal, Blind: string(o.blind), Fingerprints: o.Fingerprints,
	}
	if s.cfg.Probe.Publish {
		line.Reasons, line.Summary = o.Reasons, o.Summary
	}
	r.do(func() error { return r.dir.AppendProbe(line) })
}

// event writes event.json before the first signal. The stop is nil where none will be sent.
func (r *report) event(s *sentinel, stop *watchdog.Stop) {
	if r == nil {
		return
	}
	t := s.result.Trip
	r.begun = artifact.Event{
		CheckID: s.cfg.CheckID, Workflow: s.cfg.Workflow, Iteration: s.cfg.Iteration, RunID: s.run.ID(),
		Trigger: artifact.Trigger{Kind: string(t.Kind), Reason: t.Reason, ObservedAtUnix: t.ObservedAt.Unix()},
		Action:  artifact.Action{Kind: string(t.Action)},
		Reasons: t.Reasons, Fingerprints: t.Fingerprints, Complete: stop == nil,
	}
	if stop != nil {
		r.begun.EventID = stop.EventID()
	}
	for _, step := range s.cfg.steps(t.Action) {
		r.begun.Action.Requested = append(r.begun.Action.Requested, signalName(step.signal))
	}
	e := r.begun
	r.do(func() error { return r.dir.WriteEvent(e) })
}

// complete writes what came of a trip after the last signal.
func (r *report) complete(s *sentinel) {
	if r == nil || s.result.Trip == nil {
		s.result.Artifacts, s.result.ArtifactErr = r.outcome()
		return
	}
	r.writeTail(s)
	if s.result.Incomplete {
		t := s.result.Trip
		d := artifact.Decision{
			CheckID: s.cfg.CheckID, Workflow: s.cfg.Workflow, Iteration: s.cfg.Iteration, Reasons: t.Reasons, Fingerprints: t.Fingerprints, DecidedAtUnix: now().Unix(),
		}
		r.do(func() error { return r.dir.WriteDecision(d) })
	}
	e := r.begun
	e.Complete = true
	if requested := s.result.Requested; len(requested) > 0 { // also of a command that was ended for another reason than an ignored trip
		e.Action.Requested = nil
		for _, sig := range requested {
			e.Action.Requested = append(e.Action.Requested, signalName(sig))
		}
	}
	e.Action.Terminated = s.result.Terminated
	e.Action.EndedBy = signalName(s.result.EndedBy)
	if code := s.result.ExitCode; s.result.Signal == 0 && gone(s.tree) {
		e.Action.ExitCode = &code
	}
	for _, sent := range s.result.Sent {
		e.Action.Sent = append(e.Action.Sent, artifact.Sent{Signal: signalName(sent.Signal), SentAtUnixMS: sent.At.UnixMilli(), Processes: sent.Processes})
	}
	r.do(func() error { return r.dir.WriteEvent(e) })
	s.result.Artifacts, s.result.ArtifactErr = r.outcome()
}

// writeTail writes the redacted end of standard error. What could not be redacted is not written.
func (r *report) writeTail(s *sentinel) {
	if s.cfg.Tail == nil {
		return
	}
	text, err := inTime(r.cfg.RecordTimeout, func() ([]byte, error) { return s.cfg.Tail.Redact(s.io.tail.Bytes()), nil })
	if err == nil {
		r.do(func() error { return r.dir.WriteTail(text) })
		return
	}
	reason := "Tail.Redact panicked"
	switch {
	case errors.Is(err, bounded.ErrLeftBehind):
		reason = fmt.Sprintf("Tail.Redact did not return in %v", r.cfg.RecordTimeout)
	case errors.Is(err, bounded.ErrExited):
		reason = "Tail.Redact ended its goroutine"
	}
	r.errs = append(r.errs, fmt.Errorf("write the tail of standard error: %s; the tail was not written", reason))
}

func (r *report) outcome() (folder string, err error) {
	if r == nil {
		return "", nil
	}
	if r.wrote {
		folder = filepath.Join(r.cfg.Artifacts, r.cfg.Step, artifact.Folder)
	}
	return folder, errors.Join(r.errs...)
}

func (r *report) close() {
	if r != nil && !r.hangs {
		_ = r.dir.Close() // it is only a folder
	}
}

// signalName is a signal as artifacts have it.
func signalName(sig syscall.Signal) string {
	switch sig {
	case 0:
		return ""
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	default:
		return "SIGKILL"
	}
}
