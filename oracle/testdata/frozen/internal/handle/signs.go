package handle

import (
	"context"
	"time"
)

// Signs are what a sign of life is for: a run, or a timer of package idle. A sign is one of everything around it, too.
type Signs interface {
	// Alive is a sign of life.
	Alive()
	// AliveAt is Alive by a reading of the machine's clock that was made just now.
	AliveAt(now time.Time)
}

// SignsKey is the key under which a context carries the innermost [Signs].
type SignsKey struct{}

// SignsOf returns what a sign of life in the context is for, nil where there is nothing.
func SignsOf(ctx context.Context) Signs {
	s, _ := ctx.Value(SignsKey{}).(Signs)
	return s
}

// A Timer is a timer of package idle, as innermost [Signs].
type Timer interface {
	Signs
	// MaxSilence is the shortest time that it, or one around it, may be without a sign of life.
	MaxSilence() time.Duration
	// Hold has it, and those around it, count no silence until release is called, once.
	Hold() (release func())
}

// TimerOf returns the timer of package idle that is innermost in the context, nil where that is a run or nothing.
func TimerOf(ctx context.Context) Timer {
	t, _ := SignsOf(ctx).(Timer)
	return t
}
