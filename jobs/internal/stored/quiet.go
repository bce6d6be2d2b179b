package stored

import (
	"strings"

	"syncd/connectors"
)

// QuietClasses are the last classes of rows of which jobs.Closing.Fits says that
// nothing has become of them since they were confirmed, as a list for SQL.
func QuietClasses() string {
	list := []string{"''"}
	for _, c := range connectors.Classes() {
		if c.Confirmed() {
			list = append(list, "'"+string(c)+"'")
		}
	}
	return strings.Join(list, ", ")
}
