package phase

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// Tail returns the end of a log: the last lines, at most 16 KiB.
func Tail(path string, lines int) (tail []byte, err error) {
	const most = 16 << 10
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	end, err := io.ReadAll(io.NewSectionReader(file, max(info.Size()-most, 0), most))
	if err != nil {
		return nil, err
	}
	return lastLines(bytes.TrimRight(end, "\n"), lines), nil
}

func lastLines(text []byte, n int) []byte {
	at := len(text)
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return text[at+1:]
}
