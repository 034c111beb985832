package watchdog

import "context"

// inForce is the valid config as it is carried out: without what must not be called for a run that nothing guards.
func (cfg *Config) inForce() *Config {
	if !cfg.Disabled {
		return cfg
	}
	off := *cfg
	off.Store, off.Keeper, off.OnSignal, off.RecordInterrupts = nowhere{}, nil, nil, false
	return &off
}

// nowhere is the store of a run that nothing guards. It takes everything and keeps nothing, so that what the host does
// to the run has its effect without a special case.
type nowhere struct{}

func (nowhere) Append(context.Context, ...Event) error { return nil }

func (nowhere) Read(context.Context, string, string) ([]Event, error) { return nil, nil }

func (nowhere) Select(context.Context, Selection) ([]Event, error) { return nil, nil }

// Transact has each exchange find no event, and keep what it decides.
func (nowhere) Transact(_ context.Context, exchanges ...*Exchange) error {
	for _, x := range exchanges {
		x.Kept = x.Decide(nil)
	}
	return nil
}
