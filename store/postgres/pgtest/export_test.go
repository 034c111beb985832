package pgtest

// Processes returns the process IDs of the server.
func (s *Server) Processes() []int { return working(s.data()) }

// Folder returns the folder of the cluster.
func (s *Server) Folder() string { return s.folder }

// Templates returns how many templates there are.
func Templates() int { return len(templates.by) }
