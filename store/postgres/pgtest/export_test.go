package pgtest

// Processes are those of the server.
func (s *Server) Processes() []int { return working(s.data()) }

// Folder has the cluster.
func (s *Server) Folder() string { return s.folder }
