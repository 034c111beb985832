package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// findArtifacts returns the event files of a folder: its own, that of its step, or those of its steps. The error says
// what there is instead.
func findArtifacts(dir string) (files []string, err error) {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.Mode().IsRegular() && filepath.Base(dir) == eventFile:
		return []string{dir}, nil
	case err != nil || !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder with artifacts", term.Cut(term.Plain(dir), maxShownID))
	}
	for _, pattern := range []string{eventFile, filepath.Join(stallFolder, eventFile)} {
		if file := filepath.Join(dir, pattern); isFile(file) {
			return []string{file}, nil
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if file := filepath.Join(dir, entry.Name(), stallFolder, eventFile); isFile(file) {
			files = append(files, file)
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

// tellArtifacts tells one command's story, or of several one line each, the latest first. With --json each is told
// whole, one on a line.
func tellArtifacts(p Program, common *Common, files []string) error {
	var all []story.Story
	var unread error
	for _, file := range files {
		s, err := readArtifact(file)
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b story.Story) int { return endOf(b).Compare(endOf(a)) })
	if len(all) == 0 {
		return unread
	}
	if unread != nil {
		p.say(unread.Error())
	}
	if len(all) > 1 && !common.JSON {
		_, err := p.Stdout.WriteString(stepsText(all))
		return err
	}
	for _, s := range all {
		if err := p.tell(common, s); err != nil {
			return err
		}
	}
	return nil
}

func readArtifact(name string) (s story.Story, err error) {
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

func endOf(s story.Story) time.Time {
	if s.End == nil {
		return time.Time{}
	}
	return s.End.At
}
