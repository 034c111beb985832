package journal

import (
	"bytes"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// KeepSteps has checkpoints hold what a session remembers of its steps, nil for nothing.
func (j *Journal) KeepSteps(s Steps) {
	if j.checkpoints() == nil {
		return
	}
	k := j.known()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steps = s
}

// StepsDue reports whether a checkpoint is due for the steps alone. Press has one due if there is any new step.
func (j *Journal) StepsDue(press bool) bool {
	k := j.more.Load()
	if k == nil {
		return false
	}
	k.mu.Lock()
	s := k.steps
	k.mu.Unlock()
	switch {
	case s == nil:
		return false
	case press:
		return s.Press()
	}
	return s.Due(j.now())
}

// TakeSteps returns the last checkpoint that was read with what a run remembers of its steps, once; nil if none was.
func (j *Journal) TakeSteps() (p *record.Checkpoint) {
	k := j.more.Load()
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p, k.stored = k.stored, nil
	return p
}

// noteSteps keeps the last of the events that has what a run remembers of its steps, for whoever attaches.
func (j *Journal) noteSteps(events []fold.Event) {
	for _, e := range slices.Backward(events) {
		if e.Type != record.EventCheckpoint || !bytes.Contains(e.Payload, []byte(`"steps"`)) {
			continue
		}
		if p, err := fold.ReadCheckpoint(j.name.Window(), e.Payload); err == nil && len(p.Steps) > 0 {
			j.keepNewer(p)
			return
		}
	}
}

func (j *Journal) keepNewer(p *record.Checkpoint) {
	k := j.known()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stored == nil || !time.Time(p.CheckpointedAt).Before(time.Time(k.stored.CheckpointedAt)) {
		k.stored = p
	}
}
