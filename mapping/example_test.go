package mapping_test

import (
	"context"
	"encoding/json"
	"fmt"

	"syncd/mapping"
)

func Example() {
	program, err := mapping.Compile(mapping.Source{
		Map: `{number: (.name | ltrimstr("#")), total: money(.total; .currency), party: ref("party"; .customer.id)}`,
		Key: `"SHOP-\(.number)"`,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	event := []byte(`{"name": "#1001", "total": 705, "currency": "EUR", "customer": {"id": 12345678901234567890}}`)
	pairs, err := program.Map(context.Background(), event, mapping.Meta{SourceID: "1001", Stream: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	body, missing, err := mapping.ResolveRefs(pairs[0].Body, func(mapping.Ref) (json.RawMessage, bool) {
		return json.RawMessage("77"), true
	})
	fmt.Println(pairs[0].Key)
	fmt.Println(string(pairs[0].Body))
	fmt.Println(string(body), missing, err)
	// Output:
	// SHOP-1001
	// {"number":"1001","party":{"$ref":{"entity":"party","key":"12345678901234567890"}},"total":"705.00"}
	// {"number":"1001","party":77,"total":"705.00"} [] <nil>
}

func ExampleCompileError() {
	_, err := mapping.Compile(mapping.Source{Map: `{total: mony(.total; "EUR")}`, Key: ".id"})
	fmt.Println(err)
	// Output:
	// map:1:9: there is no function mony (did you mean money?)
}
