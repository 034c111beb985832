package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// findState returns the state directory that the options name: by default one in the project, or, for the built-in one,
// a temporary one of this user.
func findState(o options) (state.Dir, error) {
	place := filepath.Join(os.TempDir(), fmt.Sprintf("watchdog-autosession-%d", os.Getuid()))
	if o.project != "" {
		place = filepath.Join(o.project, ".watchdog")
	}
	path, err := filepath.Abs(cmp.Or(o.state, place))
	return state.Dir(path), err
}

func openStore(dir state.Dir) (*sqlite.Store, error) {
	return sqlite.Open(context.Background(), dir.Events())
}

// find creates the session or loads it, and makes it the last one. Both lock it until release is called.
func (s *session) find() (release func(), err error) {
	if s.dir, err = findState(s.opts); err != nil {
		return nil, err
	}
	id, isNew := s.opts.session, !s.opts.attaches()
	switch {
	case isNew:
		id, err = s.create()
	case id == "":
		id, err = s.dir.Latest()
	}
	if err != nil {
		return nil, err
	}
	if release, err = s.dir.Lock(id); err != nil {
		return nil, err
	}
	if err = s.load(id); err == nil {
		err = s.dir.SetLatest(id)
	}
	if err != nil {
		release()
		return nil, err
	}
	if isNew {
		s.limits = s.fresh
	}
	return release, nil
}

// create makes a new session. It checks everything before it writes anything of the session.
func (s *session) create() (id string, err error) {
	path, err := absolute(s.opts.project)
	if err != nil {
		return "", err
	}
	in, err := findLimits(s.opts.config, s.opts.budget, nil)
	if err != nil {
		return "", err
	}
	if err := s.dir.Make(); err != nil {
		return "", err
	}
	store, err := openStore(s.dir)
	if err != nil {
		return "", err
	}
	if err := store.Close(); err != nil {
		return "", err
	}
	kept := state.New(time.Now(), pipeline[0].name)
	kept.Budget, kept.Project = state.KeepBudget(in.budget), path
	return kept.ID, s.dir.Create(kept)
}

// load reads the session, and finds its limits.
func (s *session) load(id string) error {
	kept, err := s.dir.Load(id)
	if err != nil {
		return err
	}
	path, err := absolute(s.opts.project)
	if err != nil {
		return err
	}
	if path != "" && path != kept.Project {
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

// attach makes the watchdog. With -resume a run that is blocked or complete gets a fresh window; one whose window ended
// while no process ran is blocked too.
func (s *session) attach(store watchdog.EventStore) (*watchdog.Watchdog, error) {
	wd, err := s.watch(watchdog.New, store)
	isComplete := errors.Is(err, watchdog.ErrComplete)
	if s.opts.resume && (err == nil || isComplete) {
		if isComplete || s.kept.Status == state.Complete { // all phases run again
			s.kept.Status, s.kept.Phase, s.kept.Completed = state.Running, pipeline[0].name, []string{}
		}
		if isComplete || wd.Stop() != nil {
			wd, err = s.resume(wd, store)
		}
	}
	if err != nil {
		return nil, err
	}
	// It differs from the file's after a resume, also when the resuming process was killed before it could save it.
	s.kept.StartedAt = state.Time{Time: wd.StartedAt()}
	s.kept.StopReason, s.kept.Budget = "", state.KeepBudget(s.limits.budget)
	s.reportAttached(wd)
	return wd, nil
}

// resume opens a fresh window. It saves its limits before, so that a later attach knows them.
func (s *session) resume(ended *watchdog.Watchdog, store watchdog.EventStore) (*watchdog.Watchdog, error) {
	if err := ended.Close(); err != nil { // it does nothing if New returned none
		return nil, err
	}
	s.limits = s.fresh
	s.kept.Budget = state.KeepBudget(s.limits.budget)
	if err := s.dir.Save(s.kept); err != nil {
		return nil, err
	}
	return s.watch(watchdog.Resume, store)
}

// watch calls [watchdog.New] or [watchdog.Resume].
func (s *session) watch(
	begin func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error), store watchdog.EventStore,
) (*watchdog.Watchdog, error) {
	run := watchdog.Run{ID: s.kept.ID, StartedAt: s.kept.StartedAt.Time}
	return begin(context.Background(), run, watchdog.Config{
		Disabled:  s.limits.disabled,
		Store:     store,
		Budget:    s.limits.budget,
		OnWarning: s.reportWarning,
		// The program reports everything below an error itself.
		Logger: slog.New(slog.NewTextHandler(s.out, &slog.HandlerOptions{Level: slog.LevelError})),
	})
}
