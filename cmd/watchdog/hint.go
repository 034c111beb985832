package main

import (
	"net/url"
	"os"
	"regexp"
	"strings"
)

// whyRun is the command line that tells the story of a run in the store.
func (c *Common) whyRun(id string) string {
	words := []string{"watchdog", "why"}
	if os.Getenv("WATCHDOG_STORE") != c.Store { // or else the next command has it from there, too
		words = append(words, "--store", quoted(withoutPassword(c.Store)))
	}
	return strings.Join(append(words, quoted(id)), " ")
}

// whyDir is the command line that tells the story that is in a folder of artifacts.
func whyDir(dir string) string { return "watchdog why " + quoted(dir) }

// withoutPassword is the name of a store as it can be shown.
func withoutPassword(store string) string {
	if strings.HasPrefix(store, "sqlite:") {
		return store
	}
	u, err := url.Parse(store)
	if err != nil {
		return "..."
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	for key := range query {
		if strings.Contains(strings.ToLower(key), "password") {
			query.Del(key)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// plain is a word that a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
