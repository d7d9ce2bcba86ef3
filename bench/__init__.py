"""Side-by-side measurements that print ratios; decides nothing about the product, which never imports it."""
