package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/story"
)

//go:embed assets
var assets embed.FS

// A file is the script, the style or the icon.
type file struct {
	kind, hash string
	text       []byte
}

// files are hashed with the first page, and templates parsed, because every program that imports the package would wait
// for it as it starts.
var files = sync.OnceValue(func() map[string]file {
	return map[string]file{
		"page.js":  newFile("page.js", "text/javascript; charset=utf-8"),
		"page.css": newFile("page.css", "text/css; charset=utf-8"),
		"icon.svg": newFile("icon.svg", "image/svg+xml"),
	}
})

func newFile(name, kind string) file {
	text := read(name)
	sum := sha256.Sum256(text)
	return file{kind, hex.EncodeToString(sum[:6]), text}
}

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"file":   func(name string) template.URL { return template.URL("?file=" + name + "&v=" + files()[name].hash) },
		"length": length,
		"spent":  story.SpentText,
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"utc":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
		"millis": func(t time.Time) int64 { return t.UnixMilli() },
		"add":    func(a, b int) int { return a + b },
	}).ParseFS(assets, "assets/*.html"))
})
