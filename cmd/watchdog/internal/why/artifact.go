package why

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/story"
)

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
