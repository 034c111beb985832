package sbom

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// notSaid is what SPDX has for a field of which nothing is said.
const notSaid = "NOASSERTION"

// devel is the version that the go command gives to a module of a workspace.
const devel = "(devel)"

// WriteSPDX writes the modules of the program name to w as a document of SPDX 2.3 in JSON. The digest is that of the
// program and tells its documents apart. The same arguments always give the same bytes.
func WriteSPDX(w io.Writer, name, digest string, modules []Module, created time.Time) error {
	document := &spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      name,
		DocumentNamespace: "https://" + modules[0].Path + "/spdx/" + digest,
		CreationInfo: &spdx.CreationInfo{
			Created:  created.UTC().Format(time.RFC3339),
			Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "watchdog-sbom"}},
		},
	}
	main := common.MakeDocElementID("", "Module-0")
	for i, m := range modules {
		id := common.MakeDocElementID("", fmt.Sprintf("Module-%d", i))
		document.Packages = append(document.Packages, packageOf(m, id.ElementRefID))
		link := &spdx.Relationship{RefA: main, RefB: id, Relationship: spdx.RelationshipDependsOn}
		if i == 0 {
			link.RefA, link.Relationship = common.MakeDocElementID("", "DOCUMENT"), spdx.RelationshipDescribes
		}
		document.Relationships = append(document.Relationships, link)
	}
	return spdxjson.Write(document, w, spdxjson.Indent("  "))
}

func packageOf(m Module, id spdx.ElementID) *spdx.Package {
	purl := "pkg:golang/" + m.Path
	if m.Version != devel {
		purl += "@" + m.Version
	}
	return &spdx.Package{
		PackageName:             m.Path,
		PackageSPDXIdentifier:   id,
		PackageVersion:          m.Version,
		PackageDownloadLocation: notSaid,
		PackageLicenseConcluded: notSaid,
		PackageLicenseDeclared:  m.expression(),
		PackageCopyrightText:    notSaid,
		PackageComment:          m.Sum,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: spdx.CategoryPackageManager,
			RefType:  spdx.PackageManagerPURL,
			Locator:  purl,
		}},
	}
}

// expression returns the license expression of a module: all that are in its files.
func (m Module) expression() string {
	var ids []string
	for _, license := range m.Licenses {
		ids = append(ids, license.IDs...)
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " AND ")
}

// WriteLicenses writes the license files of the modules to w, as whoever hands on the program has to hand them on.
func WriteLicenses(w io.Writer, modules []Module) error {
	for _, m := range modules {
		for _, license := range m.Licenses {
			_, err := fmt.Fprintf(w, "== %s %s: %s\n\n%s\n\n", m.Path, m.Version, license.File, strings.TrimSpace(license.Text))
			if err != nil {
				return err
			}
		}
	}
	return nil
}
