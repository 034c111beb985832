package main

import (
	"net/url"
	"os"
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
	if err != nil || u.Opaque != "" {
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

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return inQuotes(word)
}

// special reports whether a shell may take a character for something else.
func special(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_@%+=:,./-", r)
}
