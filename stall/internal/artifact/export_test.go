package artifact

// TempPrefix begins the names of files that are being written.
const TempPrefix = tempPrefix
