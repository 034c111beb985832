//go:build !unix

package main

import "os"

func inForeground(*os.File) bool { return false }
