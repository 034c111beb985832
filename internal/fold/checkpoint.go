package fold

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
)

// maxCheckpoint is the largest number of bytes of a base that is written. A larger one is read again.
const maxCheckpoint = 32 << 10

// Record has the checkpoint tell of the base, and reports whether it does: not if it would be too large, nor if the
// window that began then is over.
func (b *Base) Record(p *record.Checkpoint, window time.Time) bool {
	if w := b.folded.windows[window]; w != nil && w.Over() {
		return false
	}
	with := *p
	with.From, with.Since, with.Until = record.Stamp(b.From), record.Stamp(b.Since), record.Stamp(b.Until)
	with.Known, with.Folded = record.Number(b.Known), b.folded.recorded(b.Until)
	if b.Known > 0 {
		with.Settled = b.settled.recorded(b.Since)
	}
	if len(record.JSON(with)) > maxCheckpoint+len(p.Steps)*4/3 {
		return false
	}
	*p = with
	return true
}

var (
	errFormat   = errors.New("its format is another version's")
	errOfOther  = errors.New("it is another run's")
	errNoFolded = errors.New("it does not say what the events come to")
	errTimes    = errors.New("its times are in no order")
)

// ReadCheckpoint reads the payload of a checkpoint of the run.
func ReadCheckpoint(id WindowID, payload json.RawMessage) (*record.Checkpoint, error) {
	p := &record.Checkpoint{}
	if err := json.Unmarshal(payload, p); err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	switch {
	case p.Format != record.CheckpointFormat:
		return nil, errFormat
	case id != WindowID{Parent: p.Parent}:
		return nil, errOfOther
	}
	return p, nil
}

// BaseOf returns the base that a checkpoint tells of.
func BaseOf(id WindowID, p *record.Checkpoint) (*Base, error) {
	b := &Base{From: time.Time(p.From), Since: time.Time(p.Since), Until: time.Time(p.Until), Known: int(p.Known)}
	switch {
	case p.Folded == nil || p.Settled == nil && p.Known != 0:
		return nil, errNoFolded
	case b.From.IsZero() || b.Since.Before(b.From) || b.Until.Before(b.Since) || b.Known < 0:
		return nil, errTimes
	}
	b.folded = historyOf(id, p.Folded)
	b.settled = b.folded
	if p.Settled != nil {
		b.settled = historyOf(id, p.Settled)
	}
	b.setNext()
	return b, nil
}

func (h *History) recorded(until time.Time) *record.Folded {
	f := &record.Folded{Corrected: h.corrected}
	for _, start := range ordered.Keys(h.windows, time.Time.Compare) {
		one := h.windows[start].recorded(until)
		for id, of := range h.cancels {
			if of.Equal(start) {
				one.Cancels = append(one.Cancels, id)
			}
		}
		slices.Sort(one.Cancels)
		f.Windows = append(f.Windows, one)
	}
	for _, before := range ordered.Keys(h.after, time.Time.Compare) {
		f.Resumes = append(f.Resumes, record.FoldedResume{
			SessionStartedAt: record.Stamp(h.after[before]), PreviousStartedAt: record.Stamp(before),
		})
	}
	return f
}

func historyOf(id WindowID, f *record.Folded) History {
	h := Of(id, nil)
	h.corrected, h.cancels = f.Corrected, map[string]time.Time{}
	for i := range f.Windows {
		w := windowOfRecord(&f.Windows[i])
		h.windows[w.StartedAt] = w
		for _, id := range f.Windows[i].Cancels {
			h.cancels[id] = w.StartedAt
		}
	}
	for _, r := range f.Resumes {
		h.after[time.Time(r.PreviousStartedAt)] = time.Time(r.SessionStartedAt)
	}
	return h
}

func (w *Window) recorded(until time.Time) record.FoldedWindow {
	f := record.FoldedWindow{
		SessionStartedAt: record.Stamp(w.StartedAt), OpenedBy: w.OpenedBy, ExtensionSeconds: record.FloatSeconds(w.Extended),
		Cancel: w.Stop, CompletedAt: record.Stamp(w.CompletedAt),
	}
	for key, n := range w.Given {
		f.Extensions = append(f.Extensions, record.FoldedNumber{FoldedLimit: key, Extension: record.Number(n)})
	}
	for of := range w.asked {
		if of.Fraction == 0 {
			f.WrapUps = append(f.WrapUps, of)
		} else {
			f.Warnings = append(f.Warnings, of)
		}
	}
	for id, d := range w.directives {
		f.Directives = append(f.Directives, record.FoldedDirective{
			ID: id, Rung: record.Count(d.Rung), FoldedLimit: d.On, Allowed: record.Number(d.Allowed),
		})
	}
	for id, at := range w.resets {
		f.Resets = append(f.Resets, record.FoldedReset{ID: id, At: record.Stamp(at)})
	}
	for _, p := range w.merged(until.Add(-Lookback).Sub(w.StartedAt)) {
		f.Pauses = append(f.Pauses, p.recorded())
	}
	sorted(f.Extensions)
	sorted(f.Warnings)
	sorted(f.WrapUps)
	sorted(f.Directives)
	sorted(f.Resets)
	sorted(f.Pauses)
	return f
}

// sorted puts what came out of a map in the order of its text.
func sorted[T any](all []T) {
	ordered.Sort(all, func(a, b T) int { return cmp.Compare(string(record.JSON(a)), string(record.JSON(b))) })
}

func windowOfRecord(f *record.FoldedWindow) *Window {
	w := &Window{
		StartedAt: time.Time(f.SessionStartedAt), OpenedBy: f.OpenedBy, Extended: record.Duration(f.ExtensionSeconds),
		Stop: f.Cancel, CompletedAt: time.Time(f.CompletedAt),
		Given: map[Key]int64{}, asked: map[record.FoldedNumber]bool{},
		directives: map[string]Directive{}, resets: map[string]time.Time{},
	}
	for _, e := range f.Extensions {
		w.Given[e.FoldedLimit] = int64(e.Extension)
	}
	for _, of := range slices.Concat(f.Warnings, f.WrapUps) {
		w.asked[of] = true
	}
	for _, d := range f.Directives {
		w.directives[d.ID] = Directive{Rung: int(d.Rung), On: d.FoldedLimit, Allowed: int64(d.Allowed)}
	}
	for _, r := range f.Resets {
		w.resets[r.ID] = time.Time(r.At)
	}
	for _, p := range f.Pauses {
		known := w.pauses[p.ID]
		known.Hold, known.Layer, known.opened = p.Hold, p.Layer, p.Opened
		known.Opened, known.Cap = record.Duration(p.OpenedSeconds), record.Duration(p.CapSeconds)
		known.Released, known.Closed = record.Duration(p.ReleasedSeconds), p.Released
		w.setPause(p.ID, known)
	}
	return w
}

func (p pause) recorded() record.FoldedPause {
	return record.FoldedPause{
		ID: p.ID, Hold: p.Hold, Layer: p.Layer, Opened: p.opened,
		OpenedSeconds: record.FloatSeconds(p.Opened), CapSeconds: record.FloatSeconds(p.Cap),
		Released: p.Closed, ReleasedSeconds: record.FloatSeconds(p.Released),
	}
}
