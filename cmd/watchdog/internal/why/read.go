// Package why finds the story of a run, in a store or in the artifacts of a stalled command, and tells it for people.
//
// It writes nothing, and says nothing that package story does not.
package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

// Read returns the story of a run in a store. It costs two queries for the run, two for its layers and the time, and
// one for each layer.
func Read(ctx context.Context, db stores.Database, runID string) (s story.Story, err error) {
	r, rowErr := stores.Record(ctx, db, runID)
	switch unreadable := errors.Is(rowErr, session.ErrUnreadable); {
	case rowErr != nil && !unreadable:
		return s, rowErr
	case r.Row == nil && len(r.Events) == 0 && !unreadable:
		return s, unknownRun(ctx, db, runID)
	}
	if err := readLayers(ctx, db, &r); err != nil {
		return s, err
	}
	now, err := stores.Now(ctx, db)
	if err != nil {
		return s, err
	}
	s = story.Of(r, now)
	if rowErr != nil {
		s.Others = append(s.Others, story.Other{At: now, Type: "session row", Problem: rowErr.Error()})
	}
	return s, nil
}

func readLayers(ctx context.Context, db stores.Database, r *story.Record) error {
	layers, err := db.Layers(ctx, r.RunID)
	if err != nil {
		return err
	}
	layers, r.MoreLayers = story.PageOfLayers(layers, "")
	for _, id := range layers {
		events, err := db.Read(ctx, watchdog.AggregateType, id)
		if err != nil {
			return err
		}
		r.Layers = append(r.Layers, story.Record{RunID: id, Parent: r.RunID, Events: events})
	}
	return nil
}

// maxCompared is with how many of the latest sessions an unknown run ID is compared, maxNear how many are named.
const maxCompared, maxNear = 200, 3

func unknownRun(ctx context.Context, db stores.Database, runID string) error {
	page, err := db.List(ctx, session.ListQuery{Limit: maxCompared})
	if err != nil {
		return err
	}
	var near []string
	for _, s := range page.Sessions {
		if isNear(s.RunID, runID) && len(near) < maxNear {
			near = append(near, term.Cut(term.Plain(s.RunID), maxShownID))
		}
	}
	hint := "watchdog sessions lists those that there are"
	if len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "? watchdog sessions lists all"
	}
	return fmt.Errorf("the store has no run %s, and no event of one; %s", term.Cut(term.Plain(runID), maxShownID), hint)
}

// maxShownID is how many columns of a run ID an error shows.
const maxShownID = 60

// isNear reports whether an ID holds what was asked for, or begins with most of it.
func isNear(id, asked string) bool {
	id, asked = strings.ToLower(id), strings.ToLower(cmp.Or(asked, " "))
	common := 0
	for common < min(len(id), len(asked)) && id[common] == asked[common] {
		common++
	}
	return strings.Contains(id, asked) || common > 0 && common*3 >= len(asked)*2
}

// The artifacts of a stalled command, inside the folder of its step.
const (
	stallFolder = "_stall"
	eventFile   = "event.json"
	// maxArtifact is how much of a file is read: those of a stalled command have some KiB.
	maxArtifact = 1 << 20
)

// Artifacts returns the event files of a folder: its own, that of its step, or those of its steps. The error says
// what there is instead.
func Artifacts(dir string) (files []string, err error) {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.Mode().IsRegular() && filepath.Base(dir) == eventFile:
		return []string{dir}, nil
	case err != nil || !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder with artifacts", term.Cut(term.Plain(dir), maxShownID))
	}
	for _, pattern := range []string{eventFile, stallFolder + "/" + eventFile, "*/" + stallFolder + "/" + eventFile} {
		names, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if file := filepath.Join(dir, name); isFile(file) {
				files = append(files, file)
			}
		}
		if len(files) > 0 {
			break
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("folder %s has no %s of a stalled command in it, in its %s or in that of a step: no command "+
			"stalled there", term.Cut(term.Plain(dir), maxShownID), eventFile, stallFolder)
	}
	return files, nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// ReadArtifact returns the story of a stalled command that an event file has.
func ReadArtifact(name string) (s story.Story, err error) {
	file, err := os.Open(name)
	if err != nil {
		return s, err
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxArtifact))
	if err != nil {
		return s, err
	}
	if s, err = story.OfArtifact(text, time.Now()); err != nil {
		return s, fmt.Errorf("read %s: %s", term.Plain(name), term.Plain(err.Error()))
	}
	return s, nil
}
