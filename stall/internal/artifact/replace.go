package artifact

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
)

// replace replaces a file, or leaves it as it is. It writes and syncs a temporary file and then renames it. If a
// symbolic link was put in the file's place after the check, the rename replaces the link and does not follow it.
func replace(folder *os.Root, name string, text []byte) error {
	if err := checkPlace(folder, name); err != nil {
		return err
	}
	defer lockShared(folder)()
	temp := tempPrefix + rand.Text()
	err := create(folder, temp, text)
	if err == nil {
		err = folder.Rename(temp, name)
	}
	if err != nil {
		_ = folder.Remove(temp) // it takes room on a full disk; the next Open tries again
		return err
	}
	return syncFolder(folder)
}

func create(folder *os.Root, name string, text []byte) error {
	f, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// document returns a value as indented JSON with a newline at the end.
func document(v any) ([]byte, error) { return encode(v, "  ") }

// line returns a value as JSON on one line, with its newline.
func line(v any) ([]byte, error) { return encode(v, "") }

func encode(v any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// list returns an empty list in place of nil, which JSON would show as null.
func list[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}
