package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/phase"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// findState returns the state directory that the options name.
func findState(opts options) (state.Dir, error) {
	if opts.state != "" {
		return state.At(opts.state)
	}
	project, err := absolute(opts.project)
	if err != nil {
		return state.Dir{}, err
	}
	return state.At(state.Default(project))
}

// find creates the session or loads it. Both lock it until release is called.
func (s *session) find() (release func(), err error) {
	if s.opts.attaches() {
		return s.load()
	}
	return s.create()
}

// create makes a new session. It checks everything before it writes anything of the session.
func (s *session) create() (release func(), err error) {
	path, err := absolute(s.opts.project)
	if err != nil {
		return nil, err
	}
	if s.limits, err = findLimits(s.opts.config, s.opts.budget, nil); err != nil {
		return nil, err
	}
	if err := s.dir.Make(); err != nil {
		return nil, err
	}
	store, err := s.openStore()
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	now := state.Time{Time: time.Now()}
	kept := &state.Session{
		ID: state.NewID(now.Time), StartedAt: now, CreatedAt: now, Status: state.Running, Phase: phase.Pipeline[0].Name,
		Completed: []string{}, Budget: state.KeepBudget(s.limits.budget), Project: path,
	}
	if err := s.dir.Create(kept); err != nil {
		return nil, err
	}
	s.kept = kept
	return s.lock(kept.ID)
}

// load locks and reads the session that the options name, or the last one.
func (s *session) load() (release func(), err error) {
	id := s.opts.session
	if id == "" {
		if id, err = s.dir.Latest(); err != nil {
			return nil, err
		}
	}
	if release, err = s.lock(id); err != nil {
		return nil, err
	}
	if err := s.restore(id); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (s *session) restore(id string) error {
	kept, err := s.dir.Load(id)
	if err != nil {
		return err
	}
	path, err := absolute(s.opts.project)
	if err != nil {
		return err
	}
	if s.opts.project != "" && path != kept.Project {
		return fmt.Errorf("session %s belongs to another project, %s; leave out -project, or start a new session",
			id, projectName(kept))
	}
	budget := kept.Budget.Limits()
	if s.limits, err = findLimits(s.opts.config, s.opts.budget, &budget); err != nil {
		return err
	}
	s.fresh, err = findLimits(s.opts.config, s.opts.budget, nil)
	s.kept = kept
	return err
}

// lock locks the session for this process and makes it the last one.
func (s *session) lock(id string) (release func(), err error) {
	release, err = s.dir.Lock(id)
	if err != nil {
		return nil, err
	}
	if err := s.dir.SetLatest(id); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (s *session) openStore() (*sqlite.Store, error) {
	return sqlite.Open(context.Background(), s.dir.Events())
}

// attach makes the watchdog and sets the start of its window in s.kept. It can differ from the file's after a resume,
// also when the resuming process was killed before it could save it.
func (s *session) attach(store watchdog.EventStore) (*watchdog.Watchdog, error) {
	wd, err := s.attachOrResume(store)
	if err != nil {
		return nil, err
	}
	s.kept.StartedAt = state.Time{Time: wd.StartedAt()}
	s.kept.StopReason, s.kept.Budget = "", state.KeepBudget(s.limits.budget)
	s.reportAttached(wd)
	return wd, nil
}

// attachOrResume attaches to the session's run. It resumes a blocked or a complete run if the user asked for -resume. A
// run whose window ended while no process ran is blocked too.
func (s *session) attachOrResume(store watchdog.EventStore) (*watchdog.Watchdog, error) {
	wd, err := s.newWatchdog(watchdog.New, store)
	complete := errors.Is(err, watchdog.ErrComplete)
	if err != nil && !complete || !s.opts.resume {
		return wd, err
	}
	if complete || s.kept.Status == state.Complete {
		s.startOver()
	}
	if !complete && wd.Stop() == nil {
		return wd, nil
	}
	if err := wd.Close(); err != nil { // it does nothing if New returned none
		return nil, err
	}
	s.limits = s.fresh
	s.kept.Budget = state.KeepBudget(s.limits.budget)
	if err := s.dir.Save(s.kept); err != nil { // before the window opens, so that a later attach knows its limits
		return nil, err
	}
	return s.newWatchdog(watchdog.Resume, store)
}

// startOver has all phases run again.
func (s *session) startOver() {
	s.kept.Status, s.kept.Phase, s.kept.Completed = state.Running, phase.Pipeline[0].Name, []string{}
}

// newWatchdog calls [watchdog.New] or [watchdog.Resume].
func (s *session) newWatchdog(guard attachFunc, store watchdog.EventStore) (*watchdog.Watchdog, error) {
	run := watchdog.Run{ID: s.kept.ID, StartedAt: s.kept.StartedAt.Time}
	return guard(context.Background(), run, watchdog.Config{
		Disabled:  s.limits.disabled,
		Store:     store,
		Budget:    s.limits.budget,
		OnWarning: s.reportWarning,
		// The program reports everything below an error itself.
		Logger: slog.New(slog.NewTextHandler(s.show, &slog.HandlerOptions{Level: slog.LevelError})),
	})
}

type attachFunc func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error)
