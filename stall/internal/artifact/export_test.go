package artifact

// TempPrefix is the prefix of temporary files.
const TempPrefix = tempPrefix
